# SPDX-License-Identifier: Apache-2.0
"""The scenario of a forecast: what arrives, how long it stays, and how the hosts change.

``docs/planning.md`` describes every field for operators. Durations are texts, shares are relative numbers.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kilonova.decoding import convert
from kilonova.errors import InvalidRequest
from kilonova.planning.forecast.durations import PATTERN, seconds

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Duration = Annotated[str, Meta(pattern=PATTERN)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
Weight = Annotated[float, Meta(ge=0, le=1e12)]
Shares = Annotated[dict[Name, Positive], Meta(max_length=1000)]
MOST_ARRIVALS = 10_000_000
MOST_INTERVALS = 10_000
MOST_HOSTS = 1_000_000
_UNKNOWN = re.compile(r"contains unknown field `(.*)`", re.DOTALL)
_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)


class ScenarioError(InvalidRequest):
    """A field of a scenario is invalid. ``field``: its path, such as ``arrivals[0].flavors``; "": no field."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}" if field else text, field=field)
        self.field = field


class Exponential(msgspec.Struct, tag_field="distribution", tag="exponential", forbid_unknown_fields=True, frozen=True):
    """Exponential distribution with this mean."""

    mean: Duration


class Lognormal(msgspec.Struct, tag_field="distribution", tag="lognormal", forbid_unknown_fields=True, frozen=True):
    """Log-normal distribution. ``sigma``: standard deviation of the logarithm."""

    median: Duration
    sigma: Annotated[float, Meta(ge=0, le=20)] = 1.0


class Fixed(msgspec.Struct, tag_field="distribution", tag="fixed", forbid_unknown_fields=True, frozen=True):
    """Always the same value."""

    value: Duration


class Empirical(msgspec.Struct, tag_field="distribution", tag="empirical", forbid_unknown_fields=True, frozen=True):
    """One of these values, each with the same probability."""

    values: Annotated[tuple[Duration, ...], Meta(min_length=1, max_length=1_000_000)]


Distribution = Exponential | Lognormal | Fixed | Empirical


class Group(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Server groups: each ``size`` consecutive servers are a group of their own."""

    policy: str
    size: Annotated[int, Meta(ge=1, le=10_000)]
    max_server_per_host: Annotated[int, Meta(ge=1, le=10_000)] = 1


class Resizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A ``share`` of the servers is resized once, after a time drawn from ``after``, to one of ``flavors``."""

    share: Annotated[float, Meta(ge=0, le=1)]
    after: Distribution
    flavors: Shares


class Arrivals(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A stream of new servers, one per request.

    ``per_day``: mean number a day at the beginning, or ``count``: the total number; one of them is required.
    ``growth``: growth of the rate in a year (0.5: half as much again). ``daily``: relative rate of each hour,
    ``weekly``: of each day from Monday on; time 0 is a Monday, 0:00. ``begins``, ``ends``: when the stream flows.
    ``lifetimes``: None: the servers are never deleted.
    """

    flavors: Shares
    per_day: Weight | None = None
    count: Annotated[int, Meta(ge=0, le=MOST_ARRIVALS)] | None = None
    growth: Annotated[float, Meta(gt=-1, le=1000)] = 0.0
    daily: Annotated[tuple[Weight, ...], Meta(min_length=24, max_length=24)] | None = None
    weekly: Annotated[tuple[Weight, ...], Meta(min_length=7, max_length=7)] | None = None
    begins: Duration = "0s"
    ends: Duration | None = None
    images: Shares = {}
    projects: Shares = {}
    zones: Shares = {}
    hints: dict[Name, str] = {}
    group: Group | None = None
    lifetimes: Distribution | None = None
    resizes: Resizes | None = None


class Failures(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Failures of hosts: each fails after an exponential time with the mean ``mtbf``, and is back after ``repair``.

    ``evacuate``: whether its servers are evacuated, the largest first; otherwise they stay on the host.
    """

    mtbf: Duration
    repair: Distribution
    evacuate: bool = True


class Growth(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """New hosts: ``hosts`` copies of the host ``like``, without its servers, at the time ``at`` or each ``every``."""

    hosts: Annotated[int, Meta(ge=1, le=MOST_HOSTS)]
    like: Name
    at: Duration | None = None
    every: Duration | None = None


class Scenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A scenario. ``cloud``: the described cloud: its hosts, flavors and images; None: the present cloud.

    ``interval``: length of the intervals of the report; default: a 52nd of ``length``. ``full_below``: the cloud counts
    as full from the first interval on in which a smaller share of the servers is accepted. ``traces``: CSV files.
    ``present``: remaining lifetimes of the servers that exist at the beginning; None: they are never deleted.
    """

    length: Duration
    about: str = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1
    interval: Duration | None = None
    full_below: Annotated[float, Meta(gt=0, le=1)] = 0.99
    arrivals: Annotated[tuple[Arrivals, ...], Meta(max_length=1000)] = ()
    traces: tuple[Name, ...] = ()
    present: Distribution | None = None
    failures: Failures | None = None
    growth: Annotated[tuple[Growth, ...], Meta(max_length=1000)] = ()
    cloud: Any = None

    @property
    def length_s(self) -> float:
        return seconds(self.length)

    @property
    def interval_s(self) -> float:
        return self.length_s / 52 if self.interval is None else seconds(self.interval)


def scenario_of(content: Any) -> Scenario:
    """Return the scenario of a decoded file or body. Raises: ScenarioError."""
    if not isinstance(content, dict):
        raise ScenarioError("", "a scenario must be a mapping")
    try:
        found = convert(content, Scenario)
    except msgspec.ValidationError as error:
        raise _located(str(error)) from None
    _check(found)
    return found


def _located(text: str) -> ScenarioError:
    found = _PLACE.fullmatch(text)
    what, field = (text, "") if found is None else found.groups()
    if (unknown := _UNKNOWN.search(what)) is not None:
        return ScenarioError(f"{field}.{unknown[1]}".removeprefix("."), "unknown field")
    what = what.replace(f"matching regex {PATTERN!r}", "that is a duration such as 12h, 30d or 1y")
    return ScenarioError(field, what[:1].lower() + what[1:])


def _check(scenario: Scenario) -> None:
    if scenario.length_s <= 0:
        raise ScenarioError("length", "must be more than 0")
    if scenario.interval_s <= 0 or scenario.length_s / scenario.interval_s > MOST_INTERVALS:
        raise ScenarioError("interval", f"there may be at most {MOST_INTERVALS} intervals")
    for number, each in enumerate(scenario.arrivals):
        place = f"arrivals[{number}]"
        if (each.per_day is None) == (each.count is None):
            raise ScenarioError(place, "one of `per_day` and `count` is required")
        if not each.flavors:
            raise ScenarioError(f"{place}.flavors", "at least one flavor is required")
        for name in ("daily", "weekly"):
            pattern = getattr(each, name)
            if pattern is not None and not any(pattern):
                raise ScenarioError(f"{place}.{name}", "at least one number must be more than 0")
        if each.ends is not None and seconds(each.ends) <= seconds(each.begins):
            raise ScenarioError(f"{place}.ends", "must be after `begins`")
        if each.resizes is not None and not each.resizes.flavors:
            raise ScenarioError(f"{place}.resizes.flavors", "at least one flavor is required")
    if scenario.failures is not None and seconds(scenario.failures.mtbf) <= 0:
        raise ScenarioError("failures.mtbf", "must be more than 0")
    for number, grown in enumerate(scenario.growth):
        place = f"growth[{number}]"
        if (grown.at is None) == (grown.every is None):
            raise ScenarioError(place, "one of `at` and `every` is required")
        if grown.every is not None and seconds(grown.every) * MOST_INTERVALS < scenario.length_s:
            raise ScenarioError(f"{place}.every", f"hosts can be added at most {MOST_INTERVALS} times")
