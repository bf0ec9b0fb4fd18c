# SPDX-License-Identifier: Apache-2.0
"""Networks of servers: the networks that each new server requests, and its cached interfaces, which the API shows and
searches.

The network service is the authority; the cache is renewed when Kilonova changes a port, by events of the network
service, and periodically.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.decoding import convert
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest

_N, _A = t.instance_networks.c, t.instance_addresses.c
_INFO = Prepared(sa.select(_N.info).where(_N.instance_uuid == sa.bindparam("uuid")))
_REQUEST = Prepared(sa.select(_N.request).where(_N.instance_uuid == sa.bindparam("uuid")))
#: Cached interfaces of some servers, as text: a page of a list has up to a thousand servers.
_INFOS = Prepared(
    sa.select(_N.instance_uuid, sa.cast(_N.info, sa.Text)).where(
        _N.instance_uuid.in_(sa.bindparam("uuids", expanding=True))
    )
)
_FROM_TEXT = msgspec.json.Decoder(NetworkInfo)
_INSERT = PreparedInsert(t.instance_networks)
_STORE = Prepared(
    sa.update(t.instance_networks)
    .where(_N.instance_uuid == sa.bindparam("uuid"))
    .values(info=sa.bindparam("info", type_=_N.info.type), updated_at=sa.bindparam("now", type_=_N.updated_at.type))
)
_ADD_ADDRESSES = PreparedInsert(t.instance_addresses)
_FORGET_ADDRESSES, _FORGET = (
    Prepared(sa.delete(table).where(table.c.instance_uuid.in_(sa.bindparam("uuids", expanding=True))))
    for table in (t.instance_addresses, t.instance_networks)
)
_PRESENT = Prepared(sa.select(_N.instance_uuid).where(_N.instance_uuid == sa.bindparam("uuid")))


def insert(tx: Transaction, requests: Mapping[str, NetworkRequest]) -> None:
    """Store the network requests of new servers. Servers without a row have no networks."""
    rows = [
        {"instance_uuid": uuid, "request": msgspec.to_builtins(request), "info": [], "updated_at": tx.now}
        for uuid, request in requests.items()
    ]
    _INSERT.run(tx.connection, rows)


def request_of(connection: Connection, instance_uuid: str) -> NetworkRequest:
    """Return the networks that a server was created with."""
    for (stored,) in _REQUEST.rows(connection, uuid=instance_uuid):
        return convert(stored, NetworkRequest)
    return NO_NETWORKS


def has_row(connection: Connection, instance_uuid: str) -> bool:
    """Return True if a server was created with networks, or has got an interface since."""
    return bool(_PRESENT.rows(connection, uuid=instance_uuid))


def info_of(connection: Connection, instance_uuid: str) -> NetworkInfo:
    """Return the cached interfaces of a server, in the order in which the guest sees them."""
    for (stored,) in _INFO.rows(connection, uuid=instance_uuid):
        return _read(stored)
    return ()


def infos_of(connection: Connection, instance_uuids: Collection[str]) -> dict[str, NetworkInfo]:
    """Return instance uuid → cached interfaces. Servers without interfaces are left out."""
    found = dict[str, NetworkInfo]()
    for part in pieces(instance_uuids):
        for uuid, text in heeding(_INFOS.rows(connection, uuids=part)):
            if info := _FROM_TEXT.decode(text):
                found[uuid] = info
    return found


def page(connection: Connection, start: str, limit: int) -> dict[str, NetworkInfo]:
    """Return the cached interfaces of up to ``limit`` servers from the uuid ``start`` on, by server in their order."""
    wanted = sa.select(_N.instance_uuid, sa.cast(_N.info, sa.Text)).where(_N.instance_uuid >= start)
    rows = connection.execute(wanted.order_by(_N.instance_uuid).limit(limit))
    return {uuid: _FROM_TEXT.decode(text) for uuid, text in heeding(rows)}


def store_info(tx: Transaction, instance_uuid: str, info: NetworkInfo) -> None:
    """Replace the cached interfaces of a server, and the addresses by which servers are searched."""
    store_infos(tx, {instance_uuid: info})


def store_infos(tx: Transaction, infos: Mapping[str, NetworkInfo]) -> None:
    """Replace the cached interfaces of servers, by server, and their addresses."""
    rows = []
    for uuid, info in infos.items():
        stored = msgspec.to_builtins(info)
        if _STORE.run(tx.connection, uuid=uuid, info=stored, now=tx.now) == 0:
            request = msgspec.to_builtins(NO_NETWORKS)
            row = {"instance_uuid": uuid, "request": request, "info": stored, "updated_at": tx.now}
            _INSERT.run(tx.connection, [row])
        rows += [{"instance_uuid": uuid, "address": address, "version": v} for address, v in _addresses(info)]
    for part in pieces(infos):
        _FORGET_ADDRESSES.run(tx.connection, uuids=part)
    _ADD_ADDRESSES.run(tx.connection, rows)


def set_active(tx: Transaction, instance_uuid: str, active: Mapping[str, bool]) -> None:
    """Record whether ports of a server are plugged. ``active``: port id → whether the port is plugged."""
    info = info_of(tx.connection, instance_uuid)
    changed = tuple(replace(vif, active=active.get(vif.port_id, vif.active)) for vif in info)
    if changed != info:
        values = {"info": msgspec.to_builtins(changed)}
        tx.execute(sa.update(t.instance_networks).where(_N.instance_uuid == instance_uuid).values(**values))


def touch(tx: Transaction, instance_uuids: Collection[str]) -> None:
    """Note that the caches of servers were renewed now."""
    here = _N.instance_uuid.in_(list(instance_uuids))
    tx.execute(sa.update(t.instance_networks).where(here).values(updated_at=tx.now))


def forget(tx: Transaction, instance_uuids: Collection[str]) -> None:
    """Remove the cached interfaces and addresses of deleted servers."""
    for part in pieces(instance_uuids):
        _FORGET_ADDRESSES.run(tx.connection, uuids=part)
        _FORGET.run(tx.connection, uuids=part)


def oldest(connection: Connection, before: datetime, limit: int) -> tuple[str, ...]:
    """Return up to ``limit`` servers whose cache was last renewed before a time, the oldest first."""
    old = sa.select(_N.instance_uuid).where(_N.updated_at < before).order_by(_N.updated_at).limit(limit)
    return tuple(connection.execute(old).scalars())


def _read(stored: Any) -> NetworkInfo:
    return convert(stored, NetworkInfo)


def _addresses(info: NetworkInfo) -> Iterable[tuple[str, int]]:
    """Return the distinct fixed and floating addresses of a server, with their IP versions."""
    found: dict[str, int] = {}
    for vif in info:
        for subnet, fixed in vif.addresses:
            found[fixed.address] = subnet.version
            found |= dict.fromkeys(fixed.floating, 4)
    return found.items()
