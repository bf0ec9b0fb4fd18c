# SPDX-License-Identifier: Apache-2.0
"""Common endings of workflows: set the server's final state from the state table, or record a fault."""

from collections.abc import Callable, Collection
from typing import Any

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Ended, Write
from kilonova.conductor.workflow_engine.run import HasHost, HostIsBackError, Interrupt, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import complete_or_fail, complete_or_repeat
from kilonova.db import host_agents, instances, pending_removals
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StepReply
from kilonova.model.found_guest import RemovalReason
from kilonova.model.instance import Fault, PowerState, TaskState, VmState
from kilonova.model.transitions import TRANSITIONS


def settled(tx: Transaction, run: Run[HasHost], power_state: PowerState | None, *, otherwise: bool = False) -> None:
    """Set the server to the final state of the action, and remove its task state.

    ``otherwise``: use the second of the action's two final states.
    """
    settle(tx, run, settled_state(run, otherwise=otherwise), power_state)


def as_before(tx: Transaction, run: Run[HasHost], _power_state: PowerState | None) -> None:
    """Leave the server in its previous state, and remove its task state."""
    settle(tx, run, None, None)


def settled_state(run: Run[HasHost], *, otherwise: bool = False) -> VmState | None:
    """Return the final state of a workflow's action; None: the server keeps its previous state.

    ``otherwise``: return the second of the action's two final states.
    """
    transition = TRANSITIONS[run.row.kind]
    return transition.settled_otherwise if otherwise else transition.settled


def settle(tx: Transaction, run: Run[HasHost], vm_state: VmState | None, power_state: PowerState | None) -> None:
    """Write the states in which a workflow leaves its server; None as ``vm_state`` or ``power_state``: unchanged.

    The task state is removed; it may already have been reset. If a soft delete is pending, its task state stays. If an
    evacuation is pending, nothing is written, since the evacuation sets the states itself.
    """
    if run.interrupt is Interrupt.EVACUATE:
        return
    if run.interrupt is Interrupt.SOFT_DELETE:
        shown = {None, *TRANSITIONS["soft-delete"].shown}
        instances.change(tx, run.instance_uuid, expected_tasks=shown, **_states(vm_state, power_state))
        return
    _leave(tx, run, {None, *TRANSITIONS[run.row.kind].shown}, vm_state, power_state)


def failing(write: Write) -> Callable[[Services, Run[HasHost]], Ended]:
    """Return a hook that ends a rolled-back workflow with ``write``, unless the workflow was interrupted.

    The interrupting action sets the server's states itself.
    """
    return lambda _services, run: Ended() if run.interrupted is not None else Ended(write)


def _fail(tx: Transaction, run: Run[HasHost]) -> None:
    fail(tx, run, TRANSITIONS[run.row.kind].failed, run.failure.known_power_state)


def _fail_at_host(tx: Transaction, run: Run[HasHost]) -> None:
    power_state = run.failure.known_power_state
    fail(tx, run, None if power_state is None else TRANSITIONS[run.row.kind].failed, power_state)


#: Hook that records a fault and sets the server's failure state, if the state table has one for the action.
failed = failing(_fail)
#: Hook like ``failed``, but the server keeps its previous state if the host never received the order.
failed_at_host = failing(_fail_at_host)


def fail(
    tx: Transaction,
    run: Run[HasHost],
    vm_state: VmState | None,
    power_state: PowerState | None,
    fault: Fault | None = None,
) -> None:
    """Write the fault and the states of the server of a rolled-back workflow.

    None as ``vm_state`` or ``power_state``: unchanged. None as ``fault``: the fault of the run's failure.
    """
    instances.record_fault(tx, run.instance_uuid, fault or run.failure.as_fault())
    _leave(tx, run, set(TRANSITIONS[run.row.kind].shown), vm_state, power_state)


def _leave(
    tx: Transaction,
    run: Run[HasHost],
    tasks: Collection[TaskState | None],
    vm_state: VmState | None,
    power_state: PowerState | None,
) -> None:
    states = _states(vm_state, power_state)
    instances.change(tx, run.instance_uuid, expected_tasks=tasks, task_state=None, **states)


def _states(vm_state: VmState | None, power_state: PowerState | None) -> dict[str, Any]:
    """Return the columns of a server that change at the end of a workflow; None as a state: unchanged."""
    states = {"vm_state": vm_state, "power_state": power_state}
    return {"progress": 0, **{name: state for name, state in states.items() if state is not None}}


def leave_behind(
    services: Services, tx: Transaction, host: str, instance_uuid: str, departure: RemovalReason = RemovalReason.LEFT
) -> None:
    """Record that an unreachable host has to remove a guest when it returns.

    Raises: HostIsBackError if the host has returned. The check (:func:`require_absent`) and the record are in one
    transaction, so a process that registers the host later finds the record.
    """
    require_absent(services, tx, host)
    pending_removals.note(tx, host, instance_uuid, departure)


def require_absent(services: Services, tx: Transaction, host: str) -> None:
    """Raise HostIsBackError if an unreachable host has returned, that is, a live process has the host's agent."""
    process = host_agents.process_of(tx.connection, host)
    # If this is the only control process, a record that names it is stale: the host's agent has not registered again.
    is_own = process == services.owner and services.database.is_sole_process
    if process is not None and not is_own and host_agents.is_alive(tx, process):
        raise HostIsBackError(host)


def left_behind(services: Services, reply: StepReply, departure: RemovalReason = RemovalReason.LEFT) -> Write:
    """Return the write that records that an unreachable host has to remove a guest (:func:`leave_behind`)."""
    return lambda tx, run: leave_behind(services, tx, reply.host, run.instance_uuid, departure)


def gone_with_its_host(services: Services, run: Run[HasHost], reply: StepReply) -> Effect:
    """Undo reply handler: an unreachable host counts as undone; a removal record is written."""
    if is_unreachable(reply):
        return Completed(write=left_behind(services, reply))
    return complete_or_repeat(services, run, reply)


def done_without_its_host(services: Services, run: Run[HasHost], reply: StepReply) -> Effect:
    """Reply handler of a removal step: an unreachable host counts as done; a removal record is written."""
    if is_unreachable(reply):
        return Completed(write=left_behind(services, reply))
    return complete_or_fail(services, run, reply)
