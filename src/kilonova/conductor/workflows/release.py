# SPDX-License-Identifier: Apache-2.0
"""Release of a server's resources within a transaction; idempotent."""

from kilonova.db import allocations, group_guards, host_devices, instances, moves
from kilonova.db.core.transaction import Transaction


def release_claim(tx: Transaction, instance_uuid: str, group_uuid: str | None, host: str | None) -> None:
    """Release the resources of a claim: allocations, NUMA cells, devices, and the server's membership in its group."""
    allocations.delete_for_consumer(tx, instance_uuid)
    host_devices.give_back(tx, instance_uuid)
    if group_uuid is not None and host is not None:
        group_guards.leave(tx, group_uuid, host)


def release_server(tx: Transaction, instance_uuid: str) -> None:
    """Release everything that a server and its migrations hold."""
    host, group_uuid = instances.place_of(tx.connection, instance_uuid)
    moves.release_all(tx, instance_uuid, group_uuid, host)
    release_claim(tx, instance_uuid, group_uuid, host)
