# SPDX-License-Identifier: Apache-2.0
"""Stored requests decided again, each on the cloud as it was, under changed rules and on an edited cloud.

The decisions are those that a claim would have made, with the same code: kept verdicts for single servers, a batch for
several servers of a request.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from sqlalchemy.engine import Connection

from kilonova.claims.decision_inputs import DecisionInputs
from kilonova.claims.edited_changes import EditedChanges
from kilonova.claims.past_cloud import PastCloud
from kilonova.errors import InvalidRequest, RuleFailed
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.state import Assumption
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.policy_change import PolicyChange
from kilonova.planning.policy_diff import Cause, Decided, DecidedRequest, Effect, Place, Weights
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import SURVIVED, Decision
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for, require_support
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.engine.rule_change import RuleSet
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources

_NO_ROWS: Mapping[Place, int] = {}


@dataclass(frozen=True, slots=True)
class DecidedAgain:
    """The decisions for the servers of one request, in order, up to the first without a host.

    Valid until the next request is decided. ``chosen``: the host of each server; None: no host. ``failure``: why
    nothing could be decided. ``hosts``, ``spec``: what was decided on, after the last server was placed.
    """

    decisions: Sequence[Decision]
    chosen: Sequence[Place | None]
    failure: Cause | None
    hosts: HostTable | None
    spec: RequestSpec

    def weights(self, engine: Engine, removed_by: Sequence[int], rows: Mapping[Place, int]) -> Weights:
        """Return what each weigher contributes to the scores of some hosts, for the only server of the request.

        ``removed_by``: as in :class:`Decision`. ``rows``: these hosts with their rows; removed ones are left out.
        """
        assert self.hosts is not None
        survived = np.flatnonzero(np.frombuffer(bytes(removed_by), dtype=np.uint8) == SURVIVED)
        if len(survived) < 2:
            return {}
        parts = shares(engine.weighers, self.hosts, self.spec, survived, len(survived))
        found = {}
        for place, row in rows.items():
            number = int(np.searchsorted(survived, row))
            if number < len(survived) and survived[number] == row:
                values = {each.weigher: 0.0 if each.values is None else float(each.values[number]) for each in parts}
                found[place] = values
        return found

    def as_request(self, engine: Engine, rows: Mapping[Place, int], places: Collection[Place]) -> DecidedRequest:
        """Return the decisions in the form in which they are compared. ``places``: hosts whose weights matter."""
        if self.failure is not None:
            return DecidedRequest({}, _NO_ROWS, self.failure)
        found = {}
        for index, (decision, place) in enumerate(zip(self.decisions, self.chosen, strict=True)):
            removed_by: Sequence[int] = decision.removed_by.tobytes()
            if len(self.decisions) == 1 and places:
                weights = self.weights(engine, removed_by, {place: rows[place] for place in places if place in rows})
            else:
                weights = {(host.host, host.node): host.weights for host in decision.ranked}
            rules = [(step.rule, step.reason) for step in decision.steps]
            found[index] = Decided(place, rules, removed_by, weights)
        return DecidedRequest(found, rows)


class Redecider:
    """Decides stored requests again, in the order of their change-log numbers.

    ``connection``: a read transaction. ``rules``: the rules to decide with. ``change``: its aggregates, hosts and
    flavors are changed; its rules are those of ``rules`` already.
    """

    def __init__(self, connection: Connection, rules: RuleSet, change: PolicyChange) -> None:
        self.rules = rules
        self.edits = EditedChanges(change)
        self._change = change
        self._past = PastCloud(connection, self.edits)
        self._kept = KeptDecisions(rules.engine)
        self._at: tuple[Mirror, DecisionInputs, int] | None = None
        self._rows: tuple[tuple[str, ...], Mapping[Place, int]] | None = None

    def decided(self, inputs: DecisionInputs, count: int) -> DecidedAgain:
        """Decide for ``count`` servers of a request. The result is valid until the next call. Raises: UnknownPast.

        Only the best host is ranked; :meth:`with_ranking` ranks as many as the stored decision did.
        """
        mirror = self._past.at(inputs.seq)
        _assume(mirror, inputs.assumed)
        self._at = mirror, inputs, count
        return self._decided(mirror, inputs, count, 1)

    def with_ranking(self) -> DecidedAgain:
        """Return the decisions of the last call of :meth:`decided` with the ranking of each."""
        assert self._at is not None
        mirror, inputs, count = self._at
        return self._decided(mirror, inputs, count, inputs.limit)

    def rows(self, hosts: HostTable | None) -> Mapping[Place, int]:
        """Return place → row of a table."""
        if hosts is None:
            return _NO_ROWS
        if self._rows is None or self._rows[0] is not hosts.hosts:
            places = zip(hosts.hosts, hosts.nodes, strict=True)
            self._rows = hosts.hosts, {place: row for row, place in enumerate(places)}
        return self._rows[1]

    def _decided(self, mirror: Mirror, inputs: DecisionInputs, count: int, limit: int) -> DecidedAgain:
        spec = self._change.asked(inputs.spec)
        try:
            return self._by_rules(mirror, inputs, spec, count, limit)
        except RuleFailed as error:
            cause = Cause(str(error.fields.get("rule", "rules")), error.message, Effect.FAILS)
        except InvalidRequest as error:
            cause = Cause("request", error.message, Effect.FAILS)
        return DecidedAgain((), (), cause, None, spec)

    def _by_rules(
        self, mirror: Mirror, inputs: DecisionInputs, spec: RequestSpec, count: int, limit: int
    ) -> DecidedAgain:
        engine, now = self.rules.engine, inputs.taken_at
        spec = with_resources(spec)
        needs = needs_of(spec, self.rules.aliases)
        if needs:
            limit = inputs.limit  # further hosts are tried if the best one cannot give the devices
        live = mirror.live()
        if inputs.group_uuid is not None:
            spec = replace(spec, group=group_for(spec, mirror.group(inputs.group_uuid), live.hosts))
        if spec.group is not None:
            require_support(engine, spec.group.policy)
        rng = None if inputs.seed is None else np.random.default_rng(inputs.seed)
        first = self._kept.decide(live, now, spec, limit=limit, rng=rng)
        if count == 1:
            best, _ = first_that_gives(first, live.hosts, needs)
            return DecidedAgain((first,), (None if best is None else (best.host, best.node),), None, live.hosts, spec)
        hosts = mirror.hosts(now).with_own_use()
        batch = Batch(engine, hosts, spec, limit=limit, rng=rng, first=first)
        decisions: list[Decision] = []
        chosen: list[Place | None] = []
        for index in range(count):
            decision = batch.decide()
            best, devices = first_that_gives(decision, hosts, needs)
            decisions.append(decision)
            chosen.append(None if best is None else (best.host, best.node))
            if best is None:
                break
            if index + 1 < count:
                batch.place(best.row, share=devices)
        return DecidedAgain(decisions, chosen, None, hosts, spec)


def _assume(mirror: Mirror, wanted: Sequence[Assumption]) -> None:
    """Make ``wanted`` the assumed claims of a mirror. Most of them were assumed at the decision before, too."""
    ids = {each.claim_id for each in wanted}
    present = {each.claim_id for each in mirror.assumed()}
    for claim_id in present - ids:
        mirror.forget(claim_id)
    for each in wanted:
        if each.claim_id not in present:
            mirror.assume(each)
