# SPDX-License-Identifier: Apache-2.0
"""Policy diff: what a change of policy changes in a decision, and the rule that makes the difference.

A server would go elsewhere, find no host, or find one although it was refused. A request for several servers is decided
as one: if one of its servers finds no host, none of them has one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from kilonova.planning.hindrance import DEVICES, DEVICES_REASON
from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.batch import EARLIER

Place = tuple[str, str]
"""A service host and its node."""
Weights = Mapping[Place, Mapping[str, float]]
"""The contribution of each weigher to the score of some hosts."""


class Verdict(StrEnum):
    """What becomes of a decision."""

    SAME = "same"
    ELSEWHERE = "elsewhere"
    FAILS = "fails"
    FITS = "fits"


class Effect(StrEnum):
    """How a rule makes a difference."""

    REJECTS = "rejects"
    ALLOWS = "allows"
    PREFERS = "prefers"
    FAILS = "fails"
    FOLLOWS = "follows"


@dataclass(frozen=True, slots=True)
class Cause:
    """The rule that makes a difference.

    ``REJECTS``: it rejects the host that was chosen before. ``ALLOWS``: it no longer rejects the host that is chosen
    now. ``PREFERS``: both hosts pass all rules both times, and the weigher rates them otherwise. ``FAILS``: the rule
    cannot decide. ``FOLLOWS``: earlier servers of the request are on other hosts.
    """

    rule: str
    reason: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that differs. ``before``, ``after``: the chosen host; None: no host."""

    verdict: Verdict
    before: Place | None
    after: Place | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision for one server.

    ``chosen``: None if no host is left. ``rules``: name and reason of each rule, in order. ``removed_by``: for each
    host the index of the rule that rejected it first, or ``SURVIVED``. ``weights``: of the best hosts, the
    contribution of each weigher to the score.
    """

    chosen: Place | None
    rules: Sequence[tuple[str, str]]
    removed_by: Sequence[int]
    weights: Weights


@dataclass(frozen=True, slots=True)
class DecidedRequest:
    """The decisions for the servers of one request, by their index in it; unknown ones are absent.

    ``rows``: place → index in ``removed_by``. ``failure``: why nothing was decided; then there are no decisions.
    """

    decisions: Mapping[int, Decided]
    rows: Mapping[Place, int]
    failure: Cause | None = None

    @property
    def refused(self) -> int | None:
        """Index of the server that found no host; None if all known servers have hosts."""
        if self.failure is not None:
            return 0
        return next((index for index, each in self.decisions.items() if each.chosen is None), None)

    def rejection(self, index: int, place: Place | None) -> tuple[str, str] | None:
        """Return name and reason of the rule that rejected a host for a server, or for an earlier server.

        None if no rule rejected the host, or if it is unknown.
        """
        row = None if place is None else self.rows.get(place)
        if row is None:
            return None
        for number in range(index + 1):
            decided = self.decisions.get(number)
            if decided is None or decided.removed_by[row] == SURVIVED:
                continue
            name, reason = decided.rules[decided.removed_by[row]]
            if name != EARLIER:
                return name, reason
        return None


def difference(before: DecidedRequest, after: DecidedRequest, index: int) -> Difference | None:
    """Return what a change of policy changes for one server of a request; None if it has the same host, or none.

    ``before`` must know the decision of the server, or a refusal of the request.
    """
    was, now = _place(before, index), _place(after, index)
    if was == now:
        return None
    if now is None:
        return Difference(Verdict.FAILS, was, None, _why_refused(before, after))
    if was is None:
        return Difference(Verdict.FITS, None, now, _why_fits(before, after, index))
    return Difference(Verdict.ELSEWHERE, was, now, _why_elsewhere(before, after, index, was, now))


def _place(request: DecidedRequest, index: int) -> Place | None:
    return None if request.refused is not None else request.decisions[index].chosen


def _why_refused(before: DecidedRequest, after: DecidedRequest) -> Cause:
    if after.failure is not None:
        return after.failure
    index = after.refused
    assert index is not None
    known = before.decisions.get(index)
    found = after.rejection(index, None if known is None else known.chosen) or _strictest(after.decisions[index])
    return Cause(*found, Effect.REJECTS)


def _strictest(decided: Decided) -> tuple[str, str]:
    """Return the rule that removed the most hosts; without any, the devices that no host can give."""
    counts = Counter(decided.removed_by)
    del counts[SURVIVED]
    if not counts:
        return DEVICES, DEVICES_REASON
    return decided.rules[min(counts, key=lambda number: (-counts[number], number))]


def _why_fits(before: DecidedRequest, after: DecidedRequest, index: int) -> Cause:
    if before.failure is not None:
        return Cause(before.failure.rule, before.failure.reason, Effect.ALLOWS)
    refused = before.refused
    assert refused is not None
    now = after.decisions.get(refused) or after.decisions[index]
    found = before.rejection(refused, now.chosen) or _strictest(before.decisions[refused])
    return Cause(*found, Effect.ALLOWS)


def _why_elsewhere(before: DecidedRequest, after: DecidedRequest, index: int, was: Place, now: Place) -> Cause:
    if (found := after.rejection(index, was)) is not None:
        return Cause(*found, Effect.REJECTS)
    if (found := before.rejection(index, now)) is not None:
        return Cause(*found, Effect.ALLOWS)
    others = range(index)
    if any(_chosen(before, number) != _chosen(after, number) for number in others):
        return Cause(EARLIER, "earlier servers of the request are on other hosts", Effect.FOLLOWS)
    return _preference(before.decisions[index].weights, after.decisions[index].weights, was, now)


def _chosen(request: DecidedRequest, index: int) -> Place | None:
    decided = request.decisions.get(index)
    return None if decided is None else decided.chosen


def _preference(before: Weights, after: Weights, was: Place, now: Place) -> Cause:
    """Return the weigher by which the host chosen now has gained most on the host chosen before."""
    lead_before, lead_after = _lead(before, now, was), _lead(after, now, was)
    if lead_before is None or lead_after is None:
        lead_before, lead_after = {}, lead_after or {}
    names = dict.fromkeys((*lead_after, *lead_before))
    gains = {name: lead_after.get(name, 0.0) - lead_before.get(name, 0.0) for name in names}
    best = max(gains, key=lambda name: gains[name], default=None)
    if best is None or gains[best] <= 0:
        return Cause("order", "hosts with the same score are in another order", Effect.PREFERS)
    return Cause(best, "rates the hosts otherwise", Effect.PREFERS)


def _lead(weights: Weights, one: Place, other: Place) -> dict[str, float] | None:
    """Return weigher → by how much one host leads another; None if the weights of either are unknown."""
    if one not in weights or other not in weights:
        return None
    return {name: value - weights[other].get(name, 0.0) for name, value in weights[one].items()}
