# SPDX-License-Identifier: Apache-2.0
"""Requests for more servers than one transaction takes: stored, claimed, and then started or given up, in pieces.

Others get in between two pieces. It is all or none nevertheless: one workflow, the leader, says what holds for all
servers of the request, and their own workflows, the members, do nothing until it starts them. So a process that is
killed between two pieces leaves no doubt, and no later start finds room for only some of the servers. (ADR 12)

::

    store ──▶ claim ──▶ start ──▶ (done: each server is on its own)
      │         │ no host for one of them
      ▼         ▼
    withdraw  give up

``store``: the client has no answer yet. Interrupted, the request is withdrawn as if it had never come.
``claim``: some servers have a host, and none is started. Whoever takes over claims hosts for the others.
``give up``: claims are released and servers put in error until none is left, whatever room there may be by then.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kilonova.conductor import build, story
from kilonova.conductor.steps import TAKEN_OVER, Step, steps
from kilonova.db import group_guards, instances, request_specs, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import Workflow
from kilonova.errors import Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.request_spec import StoredRequest

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

KIND = "batch"
#: How many times as many servers are decided under one hold of the decision lock as are claimed in one transaction.
_PIECES_DECIDED = 10
#: How many claims one transaction releases; each takes several statements.
_RELEASED_TOGETHER = 20


def store(conductor: "Conductor", built: Sequence[Instance], request: StoredRequest) -> None:
    """Store the servers of a request and begin to claim hosts for them. Returns once all of them are durable.

    Raises: whatever keeps one of them from being stored; then none will be there.
    """
    reservation_id = built[0].reservation_id
    body = {"request": request.uuid}
    leader = Workflow(new_uuid(), KIND, "", reservation_id, request.spec.request_id, "store", 0, body)
    claiming = replace(leader, step="claim", attempt=1)
    size = conductor.claimer.piece
    for start in range(0, len(built), size):
        piece = built[start : start + size]
        flows = [replace(build.new_workflow(each, leader.request_id), batch_uuid=leader.uuid) for each in piece]
        is_first, is_last = start == 0, start + size >= len(built)

        def write(tx: Transaction) -> None:
            if is_first:  # noqa: B023 - it runs before the loop goes on
                request_specs.insert(tx, [request])
                workflows.insert(tx, [leader], conductor.owner)
            build.store(tx, piece, flows, request.group_uuid, conductor.owner)  # noqa: B023
            if is_last:  # noqa: B023
                workflows.move(tx, claiming, conductor.owner)
            else:
                workflows.require(tx, leader, conductor.owner)

        try:
            conductor.database.write(write)
        except BaseException as error:
            if not is_first:
                conductor.begin(leader)  # which withdraws what is stored
            if isinstance(error, TAKEN_OVER):
                raise Unavailable("The request was interrupted; send it again.") from error
            raise
        for flow in flows:
            story.created(flow)
    conductor.begin(claiming)


def _withdraw(conductor: "Conductor", leader: Workflow) -> Workflow | None:
    """Forget servers of a request that was never answered."""
    members = _members(conductor, leader, conductor.claimer.piece)

    def withdraw(tx: Transaction) -> Sequence[Workflow]:
        workflows.require(tx, leader, conductor.owner)
        present = workflows.finish_present(tx, members, conductor.owner)
        group_guards.forget_members(tx, [flow.instance_uuid for flow in present])
        instances.mark_deleted(tx, *(flow.instance_uuid for flow in present))
        return present

    for flow in _write(conductor, leader, members, withdraw):
        story.withdrawn(flow)
    return None


def _claim(conductor: "Conductor", leader: Workflow) -> Workflow | None:
    """Claim hosts for as many servers as are decided together; when all have one, they can be started."""
    together = _PIECES_DECIDED * conductor.claimer.piece
    waiting = _members(conductor, leader, together, step="claim")
    if not waiting:
        return _move(conductor, replace(leader, step="start", attempt=leader.attempt + 1))
    with conductor.database.read() as connection:
        request = request_specs.get(connection, leader.body["request"])
        count = workflows.count_members(connection, leader.uuid, conductor.owner, "claim")
    try:
        if count > together and not leader.body.get("tried"):
            build.require_room(conductor, request, count, waiting[0])
        build.claim(conductor, waiting, request)
    except build.CannotPlaceError as refused:
        body = {**leader.body, "message": refused.message, "details": refused.details}
        return _move(conductor, replace(leader, step="give up", attempt=leader.attempt + 1, body=body))
    conductor.begin(replace(leader, body={**leader.body, "tried": True}))  # others get in between
    return None


def _start(conductor: "Conductor", leader: Workflow) -> Workflow | None:
    """Send servers to their hosts; from here on each is on its own."""
    members = _members(conductor, leader, conductor.claimer.piece, after=leader.body.get("after", ""))
    for flow in members:
        conductor.begin(flow)
    if members:
        conductor.begin(replace(leader, body={**leader.body, "after": members[-1].uuid}))
    else:
        conductor.end(leader, lambda tx: workflows.finish(tx, leader, conductor.owner))
    return None


def _give_up(conductor: "Conductor", leader: Workflow) -> Workflow | None:
    """Put servers in error and release what they hold."""
    members = _members(conductor, leader, conductor.claimer.piece)
    holding = [flow for flow in members if flow.step == "spawn"]
    piece = holding[:_RELEASED_TOGETHER] or members
    refused = build.CannotPlaceError(leader.body["message"], leader.body["details"])
    with conductor.database.read() as connection:
        group_uuid = request_specs.get(connection, leader.body["request"]).group_uuid

    def give_up(tx: Transaction) -> Sequence[Workflow]:
        workflows.require(tx, leader, conductor.owner)
        return build.fail(tx, piece, conductor.owner, refused, group_uuid)

    for flow in _write(conductor, leader, piece, give_up):
        story.failed(flow, refused.message)
    return None


def _write(
    conductor: "Conductor",
    leader: Workflow,
    piece: Sequence[Workflow],
    job: Callable[[Transaction], Sequence[Workflow]],
) -> Sequence[Workflow]:
    """Commit one piece, return whom it concerned, and let others in before the next; with none left, all is done."""
    if not piece:
        conductor.end(leader, lambda tx: workflows.finish(tx, leader, conductor.owner))
        return ()
    try:
        done = conductor.database.write(job)
    except TAKEN_OVER:
        conductor.forget(leader)
        return ()
    conductor.begin(leader)
    return done


def _move(conductor: "Conductor", leader: Workflow) -> Workflow | None:
    try:
        conductor.database.write(lambda tx: workflows.move(tx, leader, conductor.owner))
    except TAKEN_OVER:
        conductor.forget(leader)
        return None
    return leader


def _members(
    conductor: "Conductor", leader: Workflow, limit: int, *, step: str | None = None, after: str = ""
) -> tuple[Workflow, ...]:
    with conductor.database.read() as connection:
        return workflows.members(connection, leader.uuid, conductor.owner, limit=limit, step=step, after=after)


BATCH = steps(
    Step("store", do=_withdraw),
    Step("claim", do=_claim),
    Step("start", do=_start),
    Step("give up", do=_give_up),
)
