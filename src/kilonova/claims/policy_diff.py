# SPDX-License-Identifier: Apache-2.0
"""Policy diff over the decision log: the stored decisions again under a change of policy, and what it changes.

A decision that was stored under the present options is compared as stored, since a decision without changes is the same
to the bit. One that was stored under other options is decided twice: by the present policy and by the changed one.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from itertools import groupby

import msgspec
from sqlalchemy.engine import Connection

from kilonova.claims.decided_again import DecidedAgain, Redecider
from kilonova.claims.decision_inputs import DecisionInputs, decode
from kilonova.claims.past_cloud import UnknownPast
from kilonova.db import decisions
from kilonova.db.decisions import DecisionPlace, PackedDecision
from kilonova.planning.policy_change import PolicyChange
from kilonova.planning.policy_diff import Decided, DecidedRequest, Difference, Effect, Place, Verdict, difference
from kilonova.records import dataclass, replace
from kilonova.scheduler.engine.rule_change import RuleSet

NO_INPUTS = (
    "The inputs of the decision are not stored: a scheduler driver, the check of a rebuild or an older release made it."
)
_TOGETHER = 500

Progress = Callable[[float, str], None]
_Rated = Callable[[], tuple[DecidedRequest, DecidedRequest]]


class StoredDifference(msgspec.Struct, frozen=True):
    """A stored decision that the change of policy changes."""

    request_id: str
    instance_uuid: str
    created_at: datetime
    seq: int
    move: str | None
    difference: Difference


@dataclass(slots=True)
class PolicyDiff:
    """What a change of policy changes in the stored decisions.

    ``decisions``: number of the decisions that were looked at. ``verdicts``: how many of them have which verdict;
    ``undecided``: reason → number of decisions that could not be decided again. ``causes``: (rule, verdict) → number.
    ``differences``: the newest that differ, in the order of the log. ``decided_twice``: number of the decisions that
    were stored under other options; ``outdated``: how many of these the present policy alone would change.
    ``flavors``: name of a changed flavor → number of decisions for it. ``aggregates``, ``hosts``: the changed ones that
    existed at the time of any decision.
    """

    decisions: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    causes: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    differences: list[StoredDifference] = field(default_factory=list)
    decided_twice: int = 0
    outdated: int = 0
    flavors: Counter[str] = field(default_factory=Counter)
    aggregates: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()

    @property
    def differs(self) -> int:
        """Number of decisions that differ."""
        return sum(number for verdict, number in self.verdicts.items() if verdict is not Verdict.SAME)


@dataclass(frozen=True, slots=True)
class Policies:
    """The present rules, the changed rules, and the change between them."""

    present: RuleSet
    changed: RuleSet
    change: PolicyChange


def policy_diff(
    connection: Connection,
    policies: Policies,
    places: Sequence[DecisionPlace],
    *,
    most: int = 1_000,
    progress: Progress = lambda _done, _text: None,
) -> PolicyDiff:
    """Decide the stored decisions at ``places`` again, and return what differs, at most ``most`` in detail."""
    found = PolicyDiff(decisions=len(places))
    walk = _Walk(connection, policies, found, most)
    without = [place for place in places if place.inputs_id is None]
    if without:
        found.undecided[NO_INPUTS] += len(without)
    done = len(without)
    for request in _requests(connection, [place for place in places if place.inputs_id is not None]):
        progress(done / len(places), f"{done} of {len(places)} decisions")
        walk.decide(request)
        done += len(request.stored)
    found.differences = list(walk.newest)
    found.aggregates = frozenset(walk.changed.edits.met_aggregates)
    found.hosts = frozenset(walk.changed.edits.met_hosts)
    return found


class _Request(msgspec.Struct, frozen=True):
    """The stored decisions of one request, by the index of the server, and their inputs; None: these are gone."""

    stored: Mapping[int, PackedDecision]
    inputs: bytes | None

    def count(self, inputs: DecisionInputs) -> int:
        """Return the number of servers to decide for.

        A refusal is stored for the refused server only, so the number of a refused request is that of its servers.
        """
        known = max(self.stored) + 1
        is_refused = any(each.chosen is None for each in self.stored.values())
        return max(known, len(inputs.spec.instance_uuids)) if is_refused else known


def _requests(connection: Connection, places: Sequence[DecisionPlace]) -> Iterator[_Request]:
    """Yield the requests of the places, in their order. Decisions of one request are adjacent."""
    names: dict[str, bytes] = {}
    grouped: dict[str, list[int]] = {}
    for place in places:
        assert place.inputs_id is not None
        grouped.setdefault(place.inputs_id, []).append(place.id)
    numbered = enumerate(grouped.items())
    for _, some in groupby(numbered, key=lambda item: item[0] // _TOGETHER):
        part = dict(item for _, item in some)
        rows = decisions.read_many(connection, [number for ids in part.values() for number in ids], names)
        inputs = decisions.inputs_of(connection, list(part))
        for inputs_id, ids in part.items():
            stored = {rows[number].server_index: rows[number] for number in ids if number in rows}
            if stored:
                yield _Request(stored, inputs.get(inputs_id))


class _Walk:
    """Decides request after request by the changed policy, and by the present one where that is needed."""

    def __init__(self, connection: Connection, policies: Policies, found: PolicyDiff, most: int) -> None:
        self.changed = Redecider(connection, policies.changed, policies.change)
        self._connection = connection
        self._policies = policies
        self._found = found
        self.newest: deque[StoredDifference] = deque(maxlen=most)
        self._present: Redecider | None = None
        self._names: tuple[bytes, Mapping[Place, int]] = (b"", {})

    def decide(self, request: _Request) -> None:
        """Decide a request, and add what differs to the result."""
        if request.inputs is None:
            self._found.undecided[NO_INPUTS] += len(request.stored)
            return
        inputs, digest = decode(request.inputs)
        for name in self._policies.change.names_of(inputs.spec.flavor):
            self._found.flavors[name] += len(request.stored)
        try:
            if digest == self._policies.present.digest:
                self._compare(request, inputs)
            else:
                self._compare_twice(request, inputs)
        except UnknownPast as error:
            self._found.undecided[error.message] += len(request.stored)

    def _compare(self, request: _Request, inputs: DecisionInputs) -> None:
        """Compare the stored decisions with those of the changed policy."""
        after = self.changed.decided(inputs, request.count(inputs))
        if _is_as_stored(request.stored, after):
            self._found.verdicts[Verdict.SAME] += len(request.stored)
            return
        rows = self.changed.rows(after.hosts)
        before = self._as_stored(request.stored)

        def rated() -> tuple[DecidedRequest, DecidedRequest]:
            if len(after.chosen) > 1:
                return before, self.changed.with_ranking().as_request(self.changed.rules.engine, rows, ())
            stored = request.stored[0]
            places = [place for place in (stored.chosen, after.chosen[0]) if place is not None]
            was = self._rated(before, stored.removed_by, after, places)
            return was, after.as_request(self.changed.rules.engine, rows, places)

        self._take(request, before, after.as_request(self.changed.rules.engine, rows, ()), rated)

    def _compare_twice(self, request: _Request, inputs: DecisionInputs) -> None:
        """Compare the decisions of the present policy with those of the changed policy."""
        if self._present is None:
            self._present = Redecider(self._connection, self._policies.present, PolicyChange())
        one, other, count = self._present, self.changed, request.count(inputs)
        before, after = one.decided(inputs, count), other.decided(inputs, count)
        self._found.decided_twice += len(request.stored)
        if not _is_as_stored(request.stored, before):
            self._found.outdated += len(request.stored)

        if before.chosen == after.chosen and before.failure is None and after.failure is None:
            self._found.verdicts[Verdict.SAME] += len(request.stored)
            return

        def compared(
            before: DecidedAgain, after: DecidedAgain, places: Collection[Place]
        ) -> tuple[DecidedRequest, DecidedRequest]:
            was = before.as_request(one.rules.engine, one.rows(before.hosts), places)
            return was, after.as_request(other.rules.engine, other.rows(after.hosts), places)

        def rated() -> tuple[DecidedRequest, DecidedRequest]:
            places = [place for place in (*before.chosen, *after.chosen) if place is not None]
            return compared(one.with_ranking(), other.with_ranking(), places)

        self._take(request, *compared(before, after, ()), rated)

    def _take(self, request: _Request, before: DecidedRequest, after: DecidedRequest, rated: _Rated) -> None:
        """Count what differs. ``rated``: returns both requests with the weights of the hosts, which takes time."""
        weighed: tuple[DecidedRequest, DecidedRequest] | None = None
        for index, stored in sorted(request.stored.items()):
            found = difference(before, after, index)
            if found is not None and found.cause.effect is Effect.PREFERS:
                weighed = weighed or rated()
                found = difference(*weighed, index)
            if found is None:
                self._found.verdicts[Verdict.SAME] += 1
                continue
            self._found.verdicts[found.verdict] += 1
            self._found.causes[found.cause.rule, found.verdict] += 1
            shown = stored.request_id, stored.instance_uuid, stored.created_at, stored.seq, stored.move
            self.newest.append(StoredDifference(*shown, found))

    def _as_stored(self, stored: Mapping[int, PackedDecision]) -> DecidedRequest:
        """Return the stored decisions in the form in which they are compared."""
        found = {}
        for index, each in stored.items():
            body = each.body
            weights = {(host, node): parts for host, node, _, parts in body["ranked"]}
            rules = [(rule, reason) for rule, reason, *_ in body["steps"]]
            found[index] = Decided(each.chosen, rules, each.removed_by, weights)
        return DecidedRequest(found, self._rows(next(iter(stored.values())).names))

    def _rated(
        self, before: DecidedRequest, removed_by: bytes, after: DecidedAgain, places: Sequence[Place]
    ) -> DecidedRequest:
        """Return the stored decision with the weights of some hosts, of which only the best ones are stored."""
        if not self._sees_present(removed_by, after):
            return before
        rows = self.changed.rows(after.hosts)
        known = {place: rows[place] for place in places if place in rows}
        weights = after.weights(self._policies.present.engine, removed_by, known)
        return replace(before, decisions={0: replace(before.decisions[0], weights=weights)})

    def _sees_present(self, removed_by: bytes, after: DecidedAgain) -> bool:
        """Tell whether hosts and request are those of the stored decision, so that its weights can be computed."""
        is_edited = not self.changed.edits.is_empty or self._policies.change.flavors
        return not is_edited and after.hosts is not None and len(removed_by) == len(after.hosts)

    def _rows(self, names: bytes) -> Mapping[Place, int]:
        if self._names[0] is not names:
            lines = names.decode().split("\n")
            self._names = names, {_pair(line): row for row, line in enumerate(lines)}
        return self._names[1]


def _pair(line: str) -> Place:
    host, _, node = line.partition("\t")
    return host, node


def _is_as_stored(stored: Mapping[int, PackedDecision], again: DecidedAgain) -> bool:
    """Tell whether all stored decisions have the same host again; of a refusal, whether it is refused again."""
    if again.failure is not None:
        return False
    if again.chosen[-1] is None:
        return all(each.chosen is None for each in stored.values())
    return all(each.chosen == again.chosen[index] for index, each in stored.items())
