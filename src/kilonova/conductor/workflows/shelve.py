# SPDX-License-Identifier: Apache-2.0
"""Shelve: power the guest off and save its disk as an image. Then the server may leave its host (offload).

::

    register ──▶ power-off ──▶ snapshot ──▶ offer ──▶ upload ──▶ shut-down ──▶ keep ──▶ done (shelved)
                                                                    │           └──▶ offload ──▶ ports ──▶ done
                                                                    └─ point of no return              (offloaded)

Until it is offloaded, the server keeps its resources on the host. A running guest is powered off before its disk is
copied. A paused or suspended guest writes nothing, so it is powered off only after the upload; if the shelve fails
before that, the guest is unchanged.
"""

from dataclasses import replace
from typing import Any

from kilonova.conductor.workflow_engine.effects import Completed, Effect
from kilonova.conductor.workflow_engine.run import Failure, Interrupt, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.conductor.workflows import snapshot_steps
from kilonova.conductor.workflows.endings import (
    done_without_its_host,
    fail,
    failed,
    failing,
    left_behind,
    settle,
    settled,
    settled_state,
)
from kilonova.conductor.workflows.host_facts import NetworkedHostFacts
from kilonova.conductor.workflows.network_steps import ports_step, unbind
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import instances, shelved, unwanted_images
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, StartGuest, StepReply, StopGuest
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ShelveFacts:
    """Facts of a shelve. ``host``: host of the guest. ``image_id``: image of its disk.

    ``brought``: the image has its data. ``offload``: the server leaves its host at once.
    ``runs``: the guest was running before the shelve. ``off``: the guest was powered off before the shelve.
    ``timeout_s``: seconds to shut a running guest down; None: the host's default.
    ``given_up``: an interrupt has cancelled the shelve. ``networks``: the server may have interfaces.
    """

    host: str
    image_id: str
    runs: bool = True
    off: bool = False
    offload: bool = False
    given_up: bool = False
    brought: bool = False
    timeout_s: float | None = None
    networks: bool = False


def _power_off(run: Run[ShelveFacts]) -> StopGuest | None:
    return StopGuest(run.step_id, run.instance_uuid, run.facts.timeout_s) if run.facts.runs else None


def _power_on(run: Run[ShelveFacts]) -> StartGuest | None:
    """Return the order to start the guest again; None if the guest did not run or a delete will destroy it."""
    stays = run.interrupted is not Interrupt.DELETE
    return StartGuest(run.step_id, run.instance_uuid) if run.facts.runs and stays else None


def _shut_down(run: Run[ShelveFacts]) -> StopGuest | None:
    """Return the order to power off a guest that was paused or suspended until now; None for any other guest."""
    was_paused = not (run.facts.runs or run.facts.off)
    return StopGuest(run.step_id, run.instance_uuid, 0.0) if was_paused else None


def _keep(_services: Services, run: Run[ShelveFacts]) -> Effect:
    """Record the image as the server's disk, or discard the image if the workflow was interrupted."""
    facts = run.facts
    if run.interrupted is not None:
        given_up = replace(facts, offload=False, given_up=True)
        return Completed(given_up, lambda tx, _run: unwanted_images.note(tx, [facts.image_id]), final=True)
    return Completed(write=_record_image, final=not facts.offload)


def _record_image(tx: Transaction, run: Run[ShelveFacts]) -> None:
    # The server may still have an image from an earlier shelve, if it was soft-deleted and restored since.
    shelved.forget_image(tx, run.instance_uuid)
    instances.change(
        tx,
        run.instance_uuid,
        expected_tasks={None, *TRANSITIONS["shelve"].shown},
        vm_state=settled_state(run),
        power_state=PowerState.SHUTDOWN,
        shelved_image=run.facts.image_id,
        shelved_at=tx.now,
    )


def _destroyed(services: Services, run: Run[ShelveFacts], reply: StepReply) -> Effect:
    """Complete even after an error: the guest stays on its host, and the server can be offloaded later."""
    if is_unreachable(reply):
        return Completed(write=left_behind(services, reply))
    if reply.error is not None:
        fault = Failure.of(reply).as_fault()
        stays = replace(run.facts, offload=False)
        return Completed(stays, write=lambda tx, run: instances.record_fault(tx, run.instance_uuid, fault))
    return Completed()


def _shelved(tx: Transaction, run: Run[ShelveFacts], _power_state: PowerState | None) -> None:
    if run.facts.given_up:
        return
    if run.facts.offload:
        _leave_host(tx, run, settled_state(run, otherwise=True))
    else:
        settled(tx, run, PowerState.SHUTDOWN)


def _offloaded(tx: Transaction, run: Run[NetworkedHostFacts], _power_state: PowerState | None) -> None:
    _leave_host(tx, run, settled_state(run))


def _leave_host(tx: Transaction, run: Run[ShelveFacts] | Run[NetworkedHostFacts], offloaded: VmState | None) -> None:
    """Release the resources of a shelved server, record that it has no host, and set its state to ``offloaded``.

    An action that interrupted the workflow sets the server's states itself.
    """
    host, group_uuid = instances.place_of(tx.connection, run.instance_uuid)
    release_claim(tx, run.instance_uuid, group_uuid, host)
    if run.interrupted is None:
        settle(tx, run, offloaded, PowerState.SHUTDOWN)
    away: dict[str, Any] = {"vm_state": offloaded, "power_state": PowerState.SHUTDOWN}
    instances.change(tx, run.instance_uuid, **away, host=None, node=None)


def _failed(tx: Transaction, run: Run[ShelveFacts]) -> None:
    """Leave the server in its previous state, with a fault.

    The power state in the failure is ignored: it is older than the rollback.
    """
    fail(tx, run, None, None)


_EVENT, _OFFLOAD_EVENT = "compute_shelve_instance", "compute_shelve_offload_instance"
_REGISTER, *_SNAPSHOT = snapshot_steps.steps(
    _EVENT,
    taken=None,
    offered=TaskState.SHELVING_IMAGE_PENDING_UPLOAD,
    uploading=TaskState.SHELVING_IMAGE_UPLOADING,
)
SHELVE: Workflow[ShelveFacts] = Workflow(
    "shelve",
    ShelveFacts,
    (
        _REGISTER,
        Step("power-off", do=sends(_power_off), undo=sends(_power_on), event=_EVENT),
        *_SNAPSHOT,
        one_way("shut-down", sends(_shut_down), event=_EVENT, repeats=True),
        one_way("keep", _keep),
        one_way(
            "offload",
            sends(DestroyGuest),
            on_reply=_destroyed,
            shows=TaskState.SHELVING_OFFLOADING,
            event=_OFFLOAD_EVENT,
        ),
        ports_step(unbind, event=_OFFLOAD_EVENT, applies=lambda facts: facts.networks and facts.offload),
    ),
    TRANSITIONS["shelve"],
    settle=_shelved,
    unwound=failing(_failed),
    action="shelve",
    done="shelved",
    point_of_no_return="shut-down",
)
SHELVE_OFFLOAD: Workflow[NetworkedHostFacts] = Workflow(
    "shelve-offload",
    NetworkedHostFacts,
    (
        one_way(
            "offload",
            sends(DestroyGuest),
            on_reply=done_without_its_host,
            event=_OFFLOAD_EVENT,
        ),
        ports_step(unbind, event=_OFFLOAD_EVENT),
    ),
    TRANSITIONS["shelve-offload"],
    settle=_offloaded,
    unwound=failed,
    point_of_no_return="offload",
    overtaken_by=frozenset(),  # the guest may be destroyed already, so a delete waits for the offload to end
    action="shelveOffload",
    done="offloaded",
)
