# SPDX-License-Identifier: Apache-2.0
"""Shelve: the guest is off, its disk is an image, and the server may leave its host, which keeps its place until then.

::

    register ──▶ power-off ──▶ snapshot ──▶ offer ──▶ upload ──▶ shut-down ──▶ keep ──▶ done (shelved)
                                                                 │              └──▶ offload ──▶ done (offloaded)
                                                                 └─ point of no return

A guest that runs is powered off before its disk is copied. One that is paused or suspended writes nothing, so it stays
what it is until the image has its data: whatever fails before leaves it as it was.
"""

from dataclasses import dataclass, replace
from typing import Any

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    NOTHING,
    Completed,
    Effect,
    Ended,
    Failure,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    Workflow,
    Write,
    complete_or_repeat,
    is_unreachable,
)
from kilonova.conductor.workflows import snapshot_steps
from kilonova.conductor.workflows.endings import (
    done_without_its_host,
    ended_in,
    failed,
    leave_behind,
    settle,
    settled_state,
)
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import instances, shelved, unwanted_images
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, StartGuest, StepReply, StopGuest
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.transitions import TRANSITIONS

_NOT_DONE: Effect = Completed(durable=False)


@dataclass(frozen=True, slots=True)
class ShelveFacts:
    """``host``: where the guest is. ``image_id``: the image that gets its disk; ``brought``: it has it.

    ``runs``: it was running, and may take ``timeout_s`` to shut down; ``off``: it was off.
    ``offload``: it leaves its host at once. ``given_up``: nobody wants it shelved any more.
    """

    host: str
    image_id: str
    runs: bool = True
    off: bool = False
    offload: bool = False
    given_up: bool = False
    brought: bool = False
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class OffloadFacts:
    """``host``: where the guest is."""

    host: str


def _power_off(_services: Services, run: Run[ShelveFacts]) -> Effect:
    if not run.facts.runs:
        return _NOT_DONE
    return SendToAgent(run.facts.host, StopGuest(run.step_id, run.instance_uuid, run.facts.timeout_s))


def _power_on(_services: Services, run: Run[ShelveFacts]) -> Effect:
    """Have the guest run again, unless it is about to be destroyed."""
    if not run.facts.runs or run.interrupted is Interrupt.DELETE:
        return _NOT_DONE
    return SendToAgent(run.facts.host, StartGuest(run.step_id, run.instance_uuid))


def _powered_on(services: Services, run: Run[ShelveFacts], reply: StepReply) -> Effect:
    """What a host that is not there does with the guest shows when it is back."""
    return Completed() if is_unreachable(reply) else complete_or_repeat(services, run, reply)


def _shut_down(_services: Services, run: Run[ShelveFacts]) -> Effect:
    """Power off a guest that was paused or suspended until now."""
    if run.facts.runs or run.facts.off:
        return _NOT_DONE
    return SendToAgent(run.facts.host, StopGuest(run.step_id, run.instance_uuid, 0.0))


def _keep(_services: Services, run: Run[ShelveFacts]) -> Effect:
    """Record that the image is what the server consists of from now on, unless something else waits for the server."""
    facts, shown = run.facts, TRANSITIONS["shelve"].shown
    if run.interrupted is not None:
        given_up = replace(facts, offload=False, given_up=True)
        return Completed(given_up, lambda tx: unwanted_images.note(tx, [facts.image_id]), final=True)

    def keep(tx: Transaction) -> None:
        shelved.forget_image(tx, run.instance_uuid)  # of an earlier time, where the server was restored since
        instances.change(
            tx,
            run.instance_uuid,
            expected_tasks={None, *shown},
            vm_state=settled_state(run),
            power_state=PowerState.SHUTDOWN,
            shelved_image=facts.image_id,
            shelved_at=tx.now,
        )

    return Completed(write=keep, final=not facts.offload)


def _destroy(_services: Services, run: Run[ShelveFacts | OffloadFacts]) -> Effect:
    return SendToAgent(run.facts.host, DestroyGuest(run.step_id, run.instance_uuid))


def _destroyed(services: Services, run: Run[ShelveFacts], reply: StepReply) -> Effect:
    """A host that cannot destroy the guest keeps it: the server is shelved, and can be offloaded later."""
    if is_unreachable(reply):
        return Completed(write=lambda tx: leave_behind(services, tx, reply.host, run.instance_uuid))
    if reply.error is not None:
        fault = Failure.of(reply).as_fault()
        stays = replace(run.facts, offload=False)
        return Completed(stays, write=lambda tx: instances.record_fault(tx, run.instance_uuid, fault))
    return Completed()


def _settle(_services: Services, run: Run[ShelveFacts], _power_state: PowerState | None) -> Write:
    if run.facts.given_up:
        return lambda _tx: None
    if run.facts.offload:
        return lambda tx: leave_host(tx, run, settled_state(run, otherwise=True))
    return lambda tx: settle(tx, run, settled_state(run), PowerState.SHUTDOWN)


def leave_host(tx: Transaction, run: Run[ShelveFacts] | Run[OffloadFacts], offloaded: VmState | None) -> None:
    """Give back what a shelved server holds, and record that it is nowhere, in the state ``offloaded``.

    Whoever interrupted that, and waits for it, has said already what the server does now.
    """
    host, group_uuid = instances.place_of(tx.connection, run.instance_uuid)
    release_claim(tx, run.instance_uuid, group_uuid, host)
    if run.interrupted is None:
        settle(tx, run, offloaded, PowerState.SHUTDOWN)
    away: dict[str, Any] = {"vm_state": offloaded, "power_state": PowerState.SHUTDOWN}
    instances.change(tx, run.instance_uuid, **away, host=None, node=None)


def _failed(_services: Services, run: Run[ShelveFacts]) -> Ended:
    """The server is what it was. What its guest did when the step failed, before that was undone, says nothing."""
    return ended_in(run, None, None)


_REGISTER, *_SNAPSHOT = snapshot_steps.steps(
    "compute_shelve_instance",
    taken=None,
    offered=TaskState.SHELVING_IMAGE_PENDING_UPLOAD,
    uploading=TaskState.SHELVING_IMAGE_UPLOADING,
)
SHELVE = Workflow(
    "shelve",
    ShelveFacts,
    (
        _REGISTER,
        Step("power-off", do=_power_off, undo=_power_on, on_undone=_powered_on),
        *_SNAPSHOT,
        Step("shut-down", do=_shut_down, undo=NOTHING),
        Step("keep", do=_keep, undo=NOTHING),
        Step(
            "offload",
            do=_destroy,
            undo=NOTHING,
            on_reply=_destroyed,
            shows=TaskState.SHELVING_OFFLOADING,
            event="compute_shelve_offload_instance",
        ),
    ),
    TRANSITIONS["shelve"],
    settle=_settle,
    unwound=_failed,
    action="shelve",
    done="shelved",
    point_of_no_return="shut-down",
)
SHELVE_OFFLOAD = Workflow(
    "shelve-offload",
    OffloadFacts,
    (
        Step(
            "offload",
            do=_destroy,
            undo=NOTHING,
            on_reply=done_without_its_host,
            event="compute_shelve_offload_instance",
        ),
    ),
    TRANSITIONS["shelve-offload"],
    settle=lambda _services, run, _power_state: lambda tx: leave_host(tx, run, settled_state(run)),
    unwound=failed,
    overtaken_by=frozenset(),  # the guest may be gone already: a delete begins when the server has left its host
    action="shelveOffload",
    done="offloaded",
)
