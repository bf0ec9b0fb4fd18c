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
from kilonova.db import group_guards, instances, quotas, request_specs, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import Workflow
from kilonova.errors import OverQuota, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.request_spec import StoredRequest

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

KIND = "batch"
#: How many times as many servers are decided under one hold of the decision lock as are claimed in one transaction.
_PIECES_DECIDED = 10
#: How many claims one transaction releases; each takes several statements.
_RELEASED_TOGETHER = 20


def store(
    conductor: "Conductor", built: Sequence[Instance], request: StoredRequest, at_least: int, limits: Limits | None
) -> None:
    """Store the servers of a request and begin to claim hosts for them. Returns once all of them are durable.

    Each piece counts its own servers. Where quotas do not allow all of them, there are as many as they do, if these are
    ``at_least`` so many. Raises: OverQuota; whatever keeps one of them from being stored; then none will be there.
    """
    reservation_id = built[0].reservation_id
    body = {"request": request.uuid}
    leader = Workflow(new_uuid(), KIND, "", reservation_id, request.spec.request_id, "store", 0, body)
    claiming = replace(leader, step="claim", attempt=1)
    size = conductor.claimer.piece
    with conductor.database.read() as connection:
        whole = quota_of(built, request, at_least, limits)
        built = built[: quotas.room(connection, whole, conductor.limits)]
    for start in range(0, len(built), size):
        piece = built[start : start + size]
        flows = [replace(build.new_workflow(each, leader.request_id), batch_uuid=leader.uuid) for each in piece]
        is_first, is_last = start == 0, start + size >= len(built)
        needed = min(len(piece), max(0, at_least - start))

        def write(tx: Transaction) -> int:
            wanted = quota_of(piece, request, needed, limits)  # noqa: B023 - it runs before the loop goes on
            (count,) = quotas.take(tx, [wanted], conductor.limits)
            if isinstance(count, OverQuota):
                raise count
            if is_first:  # noqa: B023
                request_specs.insert(tx, [request])
                workflows.insert(tx, [leader], conductor.owner)
            if count:
                build.store(tx, piece[:count], flows[:count], request.group_uuid, conductor.owner)  # noqa: B023
            if is_last or count < len(piece):  # noqa: B023
                workflows.move(tx, claiming, conductor.owner)
            else:
                workflows.require(tx, leader, conductor.owner)
            return count

        try:
            count = conductor.database.write(write)
        except BaseException as error:
            if not is_first:
                conductor.begin(leader)  # which withdraws what is stored
            if isinstance(error, TAKEN_OVER):
                raise Unavailable("The request was interrupted; send it again.") from error
            raise
        for flow in flows[:count]:
            story.created(flow)
        if count < len(piece):
            break  # others have taken the rest meanwhile
    conductor.begin(claiming)


def quota_of(built: Sequence[Instance], request: StoredRequest, at_least: int, limits: Limits | None) -> QuotaRequest:
    """Return what servers of one request would count."""
    first = built[0]
    counted = Usage.of(first.flavor), at_least, len(built), len(first.metadata)
    return QuotaRequest(first.project_id, first.user_id, *counted, request.group_uuid, limits)


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
