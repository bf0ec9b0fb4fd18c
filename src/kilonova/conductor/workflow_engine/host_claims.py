# SPDX-License-Identifier: Apache-2.0
"""Execution of the effect :class:`~kilonova.conductor.workflow_engine.effects.ClaimHost`.

::

    ClaimHost ──▶ order ──▶ decide (claims/claimer.py) ──▶ one transaction: guards of the placing, usage, allocations,
                                  │                        group, journal, task state, event ──▶ Claimed
                                  └─ no host ──▶ Failed

:func:`step_outcome.at_host` computes the workflow's next row, task state and event for that transaction.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kilonova.claims.claimer import Claimer, Job, Order
from kilonova.claims.placing import Chosen, Claim, NextStep
from kilonova.conductor.workflow_engine import server_log, step_outcome
from kilonova.conductor.workflow_engine.effects import Claimed, ClaimForMembers, ClaimHost, Effect, Failed, Gone
from kilonova.conductor.workflow_engine.placing_errors import CannotPlaceError, refusals
from kilonova.conductor.workflow_engine.run import HasHost, Run
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.records import replace

#: Outcome of the claim of one workflow.
Result = Claimed | Failed | Gone


class HostClaims:
    """Claims hosts for workflows. ``registry``: kind → workflow."""

    def __init__(self, claimer: Claimer, registry: Mapping[str, Workflow[Any]]) -> None:
        self._claimer = claimer
        self._registry = registry

    def may_block(self, effect: Effect) -> bool:
        """Return True if an effect calls a third-party scheduler driver, which may take seconds."""
        return isinstance(effect, ClaimHost | ClaimForMembers) and self._claimer.calls_foreign_driver

    def claim(self, asked: Sequence[tuple[Run[HasHost], ClaimHost[Any]]]) -> list[Result]:
        """Claim a host for each server of one request, or for none; return the results in the order of ``asked``."""
        if not asked:
            return []
        jobs = tuple(Job(run.instance_uuid, partial(self._at_host, run, effect)) for run, effect in asked)
        _, first = asked[0]
        spec = replace(first.spec, instance_uuids=tuple(job.instance_uuid for job in jobs))
        try:
            with refusals(spec.request_id):
                placed = self._claimer.place(Order(spec, jobs, first.group_uuid, first.placing))
        except CannotPlaceError as refused:
            return [Failed(replace(refused.failure, undone=effect.undone)) for _, effect in asked]
        claims = {claim.instance_uuid: claim for claim in placed.claims}
        for claim in placed.claims:
            _log(claim)
        return [_result(claims.get(run.instance_uuid), effect) for run, effect in asked]

    def claim_for_members(self, effect: ClaimForMembers) -> Effect:
        """Claim hosts for the members of a batch; return the effect with which the batch continues."""
        for result in self.claim(effect.members):
            if isinstance(result, Failed):
                return Failed(replace(result.failure, undone=False))  # claims of earlier members must be undone
        return effect.then

    def _at_host(self, run: Run[HasHost], effect: ClaimHost[Any], chosen: Chosen) -> NextStep:
        return step_outcome.at_host(self._registry[run.row.kind], run, effect.facts(chosen))


def _result(claim: Claim | None, effect: ClaimHost[Any]) -> Result:
    return effect.overtaken if claim is None else Claimed(claim.workflow, effect.memo)


def _log(claim: Claim) -> None:
    row, home = claim.workflow, claim.placing.home
    if home is None:
        server_log.placed(row.instance_uuid, row.request_id, claim.host, claim.node)
    else:
        server_log.moves(row.instance_uuid, row.request_id, home, claim.host)
