# SPDX-License-Identifier: Apache-2.0
"""Pieces of state change that several workflows share, each for use inside a transaction."""

from kilonova.conductor.steps import HostIsBackError
from kilonova.db import allocations, group_guards, host_agents, host_devices, moves
from kilonova.db.transaction import Transaction


def require_absent(tx: Transaction, host: str) -> None:
    """Raise HostIsBackError if some live process has the agent of a host that could not be reached.

    In the transaction that counts a guest there as gone: a process that takes the host afterwards finds it recorded.
    """
    process = host_agents.process_of(tx.connection, host)
    if process is not None and host_agents.is_alive(tx, process):
        raise HostIsBackError(host)


def release_claim(tx: Transaction, instance_uuid: str, group_uuid: str | None, host: str | None) -> None:
    """Give back what a claim took: allocations, cells and devices, the place in the server group. Absent is success.

    Of a server that is being moved also what its migration holds.
    """
    moves.release_all(tx, instance_uuid, group_uuid, host)
    allocations.delete_for_consumer(tx, instance_uuid)
    host_devices.give_back(tx, instance_uuid)
    if group_uuid is not None and host is not None:
        group_guards.leave(tx, group_uuid, host)
