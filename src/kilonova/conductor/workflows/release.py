# SPDX-License-Identifier: Apache-2.0
"""Give back what a server holds, each for use inside a transaction; absent is success."""

from kilonova.db import allocations, group_guards, host_devices, instances, moves
from kilonova.db.core.transaction import Transaction


def release_claim(tx: Transaction, instance_uuid: str, group_uuid: str | None, host: str | None) -> None:
    """Give back what a claim took: allocations, cells and devices, the place in the server group."""
    allocations.delete_for_consumer(tx, instance_uuid)
    host_devices.give_back(tx, instance_uuid)
    if group_uuid is not None and host is not None:
        group_guards.leave(tx, group_uuid, host)


def release_server(tx: Transaction, instance_uuid: str) -> None:
    """Give back everything that a server holds, what its migrations hold for it included."""
    host, group_uuid = instances.place_of(tx.connection, instance_uuid)
    moves.release_all(tx, instance_uuid, group_uuid, host)
    release_claim(tx, instance_uuid, group_uuid, host)
