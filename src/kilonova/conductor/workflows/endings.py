# SPDX-License-Identifier: Apache-2.0
"""Common endings of workflows: settled in the state of the state table, or failed with a fault."""

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
    """Settle the server in the final state of the action, without a task state.

    ``otherwise``: use the second of the action's two final states.
    """
    settle(tx, run, settled_state(run, otherwise=otherwise), power_state)


def as_before(tx: Transaction, run: Run[HasHost], _power_state: PowerState | None) -> None:
    """Settle the server in its previous state, without a task state."""
    settle(tx, run, None, None)


def settled_state(run: Run[HasHost], *, otherwise: bool = False) -> VmState | None:
    """Return the final state of a workflow's action; None: the previous state. ``otherwise``: the second one."""
    transition = TRANSITIONS[run.row.kind]
    return transition.settled_otherwise if otherwise else transition.settled


def settle(tx: Transaction, run: Run[HasHost], vm_state: VmState | None, power_state: PowerState | None) -> None:
    """Write the states in which a workflow leaves its server; None: the previous state.

    The task state may have been reset meanwhile. A pending evacuation sets the states itself, so nothing is written
    then.
    """
    if run.interrupt is Interrupt.EVACUATE:
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


#: Ends with a fault on the server. Its state: the failure state in the state table, or else the previous state.
failed = failing(_fail)
#: Like ``failed``, but the server keeps its previous state if the host never received the order.
failed_at_host = failing(_fail_at_host)


def fail(
    tx: Transaction,
    run: Run[HasHost],
    vm_state: VmState | None,
    power_state: PowerState | None,
    fault: Fault | None = None,
) -> None:
    """Write the fault of a rolled-back workflow and the server's states; None: the previous state.

    ``fault``: None stands for the fault of the run's failure.
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
    values: dict[str, Any] = {"task_state": None, "progress": 0}
    if vm_state is not None:
        values["vm_state"] = vm_state
    if power_state is not None:
        values["power_state"] = power_state
    instances.change(tx, run.instance_uuid, expected_tasks=tasks, **values)


def leave_behind(
    services: Services, tx: Transaction, host: str, instance_uuid: str, departure: RemovalReason = RemovalReason.LEFT
) -> None:
    """Record that an unreachable host has to remove a guest when it returns.

    Raises: HostIsBackError, as :func:`require_absent`, whose check is in the same transaction: a process that registers
    the host later finds the record.
    """
    require_absent(services, tx, host)
    pending_removals.note(tx, host, instance_uuid, departure)


def require_absent(services: Services, tx: Transaction, host: str) -> None:
    """Raise HostIsBackError if a live process has the agent of a host that was unreachable."""
    process = host_agents.process_of(tx.connection, host)
    # Without other control processes, a record of this process is stale: the host's agent has not registered again.
    is_own = process == services.owner and services.database.is_sole_process
    if process is not None and not is_own and host_agents.is_alive(tx, process):
        raise HostIsBackError(host)


def left_behind(services: Services, reply: StepReply, departure: RemovalReason = RemovalReason.LEFT) -> Write:
    """Return the write of :func:`leave_behind` for an unreachable host."""
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
