# SPDX-License-Identifier: Apache-2.0
"""How workflows usually end: in the state that the table says, or back where they were with a fault."""

from collections.abc import Callable, Collection
from typing import Any

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    Completed,
    Effect,
    Ended,
    HostIsBackError,
    Interrupt,
    Run,
    Write,
    complete_or_fail,
    complete_or_repeat,
    is_unreachable,
)
from kilonova.db import host_agents, instances, pending_removals
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StepReply
from kilonova.model.found_guest import RemovalReason
from kilonova.model.instance import Fault, PowerState, TaskState, VmState
from kilonova.model.transitions import TRANSITIONS


def settled(tx: Transaction, run: Run[Any], power_state: PowerState | None, *, otherwise: bool = False) -> None:
    """Write that the server is in the state in which the action settles, and that nothing is under way for it.

    ``otherwise``: in the other one of the two in which it may.
    """
    settle(tx, run, settled_state(run, otherwise=otherwise), power_state)


def as_before(tx: Transaction, run: Run[Any], _power_state: PowerState | None) -> None:
    """Write that the server is what it was, and that nothing is under way for it."""
    settle(tx, run, None, None)


def settled_state(run: Run[Any], *, otherwise: bool = False) -> VmState | None:
    """Return the state in which the action of a workflow settles, None for the one before; ``otherwise``: the other."""
    transition = TRANSITIONS[run.row.kind]
    return transition.settled_otherwise if otherwise else transition.settled


def settle(tx: Transaction, run: Run[Any], vm_state: VmState | None, power_state: PowerState | None) -> None:
    """Write in which states a workflow leaves its server, None for the one before.

    The server may show no task any more, since its state was reset meanwhile. An evacuation that waits for this to end
    has its say instead.
    """
    if run.interrupt is Interrupt.EVACUATE:
        return
    _leave(tx, run, {None, *TRANSITIONS[run.row.kind].shown}, vm_state, power_state)


def failing(write: Write) -> Callable[[Services, Run[Any]], Ended]:
    """Return what ends a workflow that has walked back: with ``write``, unless it was interrupted.

    Whoever interrupted the workflow has said already what the server does now.
    """
    return lambda _services, run: Ended() if run.interrupted is not None else Ended(write)


def _fail(tx: Transaction, run: Run[Any]) -> None:
    fail(tx, run, TRANSITIONS[run.row.kind].failed, run.failure.known_power_state)


def _fail_at_host(tx: Transaction, run: Run[Any]) -> None:
    power_state = run.failure.known_power_state
    fail(tx, run, None if power_state is None else TRANSITIONS[run.row.kind].failed, power_state)


#: The server keeps its state, or gets the one into which the action fails, and has a fault.
failed = failing(_fail)
#: The same, but it keeps its state where its host has never heard of the action.
failed_at_host = failing(_fail_at_host)


def fail(
    tx: Transaction, run: Run[Any], vm_state: VmState | None, power_state: PowerState | None, fault: Fault | None = None
) -> None:
    """Write the fault of a workflow that has walked back, and the states of its server, None for the one before.

    ``fault``: None stands for that of its failure.
    """
    instances.record_fault(tx, run.instance_uuid, fault or run.failure.as_fault())
    _leave(tx, run, set(TRANSITIONS[run.row.kind].shown), vm_state, power_state)


def _leave(
    tx: Transaction,
    run: Run[Any],
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
    """Count the guest of an instance as gone from a host that could not be reached, and record that it has to go.

    Raises: as :func:`require_absent`. That is asked in the same transaction: a process that takes the host afterwards
    finds the record.
    """
    require_absent(services, tx, host)
    pending_removals.note(tx, host, instance_uuid, departure)


def require_absent(services: Services, tx: Transaction, host: str) -> None:
    """Raise HostIsBackError if some live process has the agent of a host that could not be reached."""
    process = host_agents.process_of(tx.connection, host)
    is_own = process == services.owner and services.database.is_sole_process  # which knows of none, so there is none
    if process is not None and not is_own and host_agents.is_alive(tx, process):
        raise HostIsBackError(host)


def left_behind(services: Services, reply: StepReply, departure: RemovalReason = RemovalReason.LEFT) -> Write:
    """Return the write of :func:`leave_behind` for the host that could not be reached."""
    return lambda tx, run: leave_behind(services, tx, reply.host, run.instance_uuid, departure)


def gone_with_its_host(services: Services, run: Run[Any], reply: StepReply) -> Effect:
    """What a reply to an undo means where a host that is not there leaves nothing to undo for now.

    What it has to remove when it comes back is recorded.
    """
    if is_unreachable(reply):
        return Completed(write=left_behind(services, reply))
    return complete_or_repeat(services, run, reply)


def done_without_its_host(services: Services, run: Run[Any], reply: StepReply) -> Effect:
    """What the reply to a step means that has nothing left to do where the host is not there."""
    if is_unreachable(reply):
        return Completed(write=left_behind(services, reply))
    return complete_or_fail(services, run, reply)
