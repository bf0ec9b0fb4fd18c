# SPDX-License-Identifier: Apache-2.0
"""PCI devices that a server gets on its present host for a port that is attached, and gives back when it is detached.

The share of the server and the usage of the host's pool change in one transaction.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_devices
from kilonova.db.change_log.device_json import share_as_json, share_from_json
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate
from kilonova.model.host_devices import DeviceShare

_SHARE = t.device_shares.c


def share_of(connection: Connection, instance_uuid: str) -> DeviceShare:
    """Return the share of a server; an empty share if it has none."""
    body = connection.execute(sa.select(_SHARE.body).where(_SHARE.instance_uuid == instance_uuid)).scalar_one_or_none()
    return DeviceShare() if body is None else share_from_json(body)


def add(tx: Transaction, instance_uuid: str, node_uuid: str, port_id: str, pool: int) -> None:
    """Give a server a free device of a pool of its hypervisor, for a port. Nothing is done if the port has a device.

    Raises: ConcurrentUpdate if the pool has no free device.
    """
    share, host = share_of(tx.connection, instance_uuid), host_devices.get(tx.connection, node_uuid)
    if any(port == port_id for port, _ in share.ports):
        return
    found = next((each for each in host.pools if each.number == pool and each.free), None)
    if found is None:
        raise ConcurrentUpdate("Another server has taken the PCI device.")
    address = None
    if found.addresses and share.has_all_addresses(pool):
        taken = host_devices.addresses_on(tx.connection, [node_uuid])[node_uuid]
        address = next((each for each in found.addresses if each not in taken), None)
    body = share_as_json(share.with_port(port_id, pool, address))
    changed = sa.update(t.device_shares).where(_SHARE.instance_uuid == instance_uuid, _SHARE.node_uuid == node_uuid)
    if tx.execute(changed.values(body=body)).rowcount == 0:
        row = {"instance_uuid": instance_uuid, "node_uuid": node_uuid, "body": body}
        tx.execute(sa.insert(t.device_shares), row)
    host_devices.recount(tx, node_uuid)


def drop(tx: Transaction, instance_uuid: str, port_id: str) -> None:
    """Give back the device that a server has for a port; no error if it has none."""
    share = share_of(tx.connection, instance_uuid)
    left = share.without_port(port_id)
    if left is share:
        return
    mine = _SHARE.instance_uuid == instance_uuid
    node_uuid = tx.execute(sa.select(_SHARE.node_uuid).where(mine)).scalar_one()
    if left:
        tx.execute(sa.update(t.device_shares).where(mine).values(body=share_as_json(left)))
    else:
        tx.execute(sa.delete(t.device_shares).where(mine))
    host_devices.recount(tx, node_uuid)
