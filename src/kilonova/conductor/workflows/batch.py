# SPDX-License-Identifier: Apache-2.0
"""Big requests, for more servers than one transaction can hold. Servers are stored, claimed and started in pieces.

Other transactions run between two pieces. The request is atomic nevertheless: one workflow, the leader, decides for all
servers of the request, and their own workflows, the members, wait until the leader starts them. So a process that is
killed between two pieces leaves a defined state, and a later resume never places only some of the servers. (ADR 12)

::

    store ──▶ claim ──▶ start ──▶ (done: each server is on its own)
      │         │ no host for one of them
      ▼         ▼
    withdraw  give up

``store``: the client has no response yet. After an error or a crash, the servers are removed as if never requested.
``claim``: some servers have a host, and none is started. A process that takes the batch over claims hosts for the
remaining servers. The undo of ``claim`` releases all claims and puts all servers in error, even if there is room again
by then.
"""

from collections.abc import Sequence
from dataclasses import replace

from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.effects import Again, ClaimForMembers, Completed, Effect, Failed
from kilonova.conductor.workflow_engine.listeners import NotBuilt
from kilonova.conductor.workflow_engine.placing_errors import CannotPlaceError
from kilonova.conductor.workflow_engine.run import Failure, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import WRITE_NOTHING, Step, Workflow
from kilonova.conductor.workflows import build
from kilonova.conductor.workflows.build import BUILD, BuildFacts
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import group_guards, instance_actions, instance_networks, instances, request_specs, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass

#: The batch takes the decision lock once for this number of pieces. Each piece is claimed in a transaction of its own.
_PIECES_DECIDED = 10
#: Number of claims released in one transaction; each release takes several statements.
_RELEASED_TOGETHER = 20


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """Facts of a batch. ``request``: UUID of the request spec that all servers share.

    ``after``: UUID of the last member workflow that was started; "" before the first.
    ``room_seen``: the scheduler has found room for all servers.
    """

    request: str
    after: str = ""
    room_seen: bool = False
    host: None = None


#: Effect of the step "store". The step runs only if an error or a crash has prevented the storing of all servers.
#: Otherwise the batch starts at "claim".
_CUT_OFF = Failed(Failure("The request was interrupted; send it again."))


def _withdraw(services: Services, run: Run[BatchFacts]) -> Effect:
    """Remove one piece of the servers of a request whose client got no response."""
    members = _members(services, run, services.claimer.piece)
    if not members:
        return Completed()

    def withdraw(tx: Transaction) -> Sequence[WorkflowRow]:
        workflows.require(tx, run.row, services.owner)
        present = workflows.finish_present(tx, members, services.owner)
        group_guards.forget_members(tx, [row.instance_uuid for row in present])
        instance_networks.forget(tx, [row.instance_uuid for row in present])
        instances.mark_deleted(tx, *(row.instance_uuid for row in present))
        return present

    for row in services.database.write(withdraw):
        server_log.withdrawn(row.instance_uuid, row.request_id)
    return Again(run.facts)


def _claim(services: Services, run: Run[BatchFacts]) -> Effect:
    """Claim hosts for the next servers of the request; complete when every server has a host."""
    together = _PIECES_DECIDED * services.claimer.piece
    waiting = _members(services, run, together, step="claim")
    if not waiting:
        return Completed()
    with services.database.read() as connection:
        request = request_specs.get(connection, run.facts.request)
        count = workflows.count_members(connection, run.row.uuid, services.owner, "claim")
    try:
        if count > together and not run.facts.room_seen:
            build.require_room(services, request, count, waiting[0].instance_uuid)
    except CannotPlaceError as refused:
        return Failed(replace(refused.failure, undone=False))
    runs = [BUILD.run(row) for row in waiting]
    found = build.memos(services, runs)
    members = tuple((each, build.claim_of(each, found[each.row.uuid])) for each in runs if each.row.uuid in found)
    return ClaimForMembers(members, then=Again(replace(run.facts, room_seen=True)))


def _give_up(services: Services, run: Run[BatchFacts]) -> Effect:
    """Put one piece of the request's servers in error and release their claims."""
    members = _members(services, run, services.claimer.piece)
    if not members:
        return Completed()
    holding = [row for row in members if row.step != "claim"]
    piece = holding[:_RELEASED_TOGETHER] or members
    refused = run.failure
    with services.database.read() as connection:
        group_uuid = request_specs.get(connection, run.facts.request).group_uuid

    def give_up(tx: Transaction) -> Sequence[WorkflowRow]:
        workflows.require(tx, run.row, services.owner)
        present = workflows.finish_present(tx, piece, services.owner)
        facts: dict[str, BuildFacts] = {row.instance_uuid: BUILD.run(row).facts for row in present}
        for row in present:
            if row.step != "claim":
                release_claim(tx, row.instance_uuid, group_uuid, facts[row.instance_uuid].host)
        faults = {uuid: build.fault_of(uuid, each, refused, services.max_attempts) for uuid, each in facts.items()}
        instances.fail(tx, faults, TRANSITIONS["build"].shown)
        instance_actions.fail(tx, [(row.instance_uuid, row.request_id) for row in present])
        return present

    for row in services.database.write(give_up):
        server_log.not_built(row.instance_uuid, row.request_id, refused.message)
        services.listeners.not_built(NotBuilt(row.instance_uuid, row.request_id, refused.message, refused.details))
    return Again(run.facts)


def _start(services: Services, run: Run[BatchFacts]) -> Effect:
    """Start the member workflows of one piece of the servers. A started member is independent of the batch."""
    members = _members(services, run, services.claimer.piece, after=run.facts.after)
    if not members:
        return Completed()
    services.begin(members)
    return Again(replace(run.facts, after=members[-1].uuid))


def _members(
    services: Services, run: Run[BatchFacts], limit: int, *, step: str | None = None, after: str = ""
) -> tuple[WorkflowRow, ...]:
    with services.database.read() as connection:
        return workflows.members(connection, run.row.uuid, services.owner, limit=limit, step=step, after=after)


BATCH = Workflow(
    "batch",
    BatchFacts,
    (
        Step("store", do=lambda *_: _CUT_OFF, undo=_withdraw),
        Step("claim", do=_claim, undo=_give_up),
        one_way("start", _start),
    ),
    TRANSITIONS["build"],
    settle=WRITE_NOTHING,
    point_of_no_return="claim",
    overtaken_by=frozenset(),
    leads_others=True,
)
