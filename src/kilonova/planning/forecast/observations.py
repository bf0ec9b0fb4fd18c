# SPDX-License-Identifier: Apache-2.0
"""What is counted in each interval of a forecast, and what is measured at its end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, fields

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.planning.forecast.virtual_cloud import VirtualCloud
from kilonova.planning.stranded import stranded
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.host_table import HostTable

#: Most flavors whose requests decide what is stranded.
_MOST_REQUESTS = 20


@dataclass(slots=True)
class Counts:
    """Numbers of servers in one interval.

    ``refused``: rule that removed the last hosts → servers. ``evacuated``: moved off failed hosts; ``left_over``:
    stayed on failed hosts, because no host could take them. ``resizes_refused``: stayed as they were.
    """

    arrived: int = 0
    accepted: int = 0
    left: int = 0
    failures: int = 0
    evacuated: int = 0
    left_over: int = 0
    resized: int = 0
    resizes_refused: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refused_flavors: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Add the numbers of another interval."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def moves(self) -> int:
        return self.evacuated + self.resized

    @property
    def acceptance(self) -> float | None:
        """The accepted share of the servers that arrived, or None if none arrived."""
        return self.accepted / self.arrived if self.arrived else None


@dataclass(frozen=True, slots=True)
class Usage:
    """One resource class at one moment. ``used``: share of the capacity in use, over all hosts.

    ``deviation``: standard deviation of this share among the hosts. ``stranded``: share of the capacity that is free,
    and that no flavor can use.
    """

    capacity: int
    used: float
    deviation: float
    stranded: float


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval. ``until_s``: its end in seconds of virtual time. ``usage``: by resource class, at the end."""

    until_s: float
    counts: Counts
    hosts: int
    hosts_down: int
    servers: int
    usage: Mapping[str, Usage]


def requests_of(cloud: VirtualCloud) -> tuple[RequestSpec, ...]:
    """Return one request of each flavor, at most 20, in the order of the kinds."""
    found: dict[str, RequestSpec] = {}
    for kind in cloud.kinds:
        found.setdefault(kind.spec.flavor.flavor_id, kind.spec)
    return tuple([*found.values()][:_MOST_REQUESTS])


def usage(
    cloud: VirtualCloud, time: float, requests: Sequence[RequestSpec], aliases: Mapping[str, Alias]
) -> dict[str, Usage]:
    """Measure the resource classes. Raises: RuleFailed, InvalidRequest."""
    hosts = cloud.live.at(cloud.now(time))
    lost = {each.resource_class: each.share for each in stranded(hosts, requests, cloud.engine, aliases=aliases)}
    return {name: _of_class(hosts, name, lost.get(name, 0.0)) for name in lost}


def _of_class(hosts: HostTable, name: str, lost: float) -> Usage:
    column = hosts.column(name)
    assert column is not None
    capacity, used = hosts.capacity[:, column], hosts.used[:, column]
    rows = capacity > 0
    shares = used[rows] / capacity[rows]
    total = int(capacity.sum())
    return Usage(total, float(used[rows].sum() / total), float(np.std(shares)), lost)
