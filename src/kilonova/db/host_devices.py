# SPDX-License-Identifier: Apache-2.0
"""Guard rows of NUMA cells and PCI pools, and the share of them that each server holds.

A cell is one row with a version, updated by compare-and-swap. A pool is one row whose usage may not exceed its total.
The share of a server is stored in the transaction that changes the guard rows, so the usage in these rows is always the
sum of the shares; the usage is recomputed when an agent reports different hardware. PCI addresses are chosen in the
same transaction, so mirrors do not need them. Every change logs all devices of the hypervisor for the mirrors.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log.changes import LoggedCell, LoggedDevices, LoggedPool
from kilonova.db.change_log.device_json import (
    as_logged,
    card_facts,
    cell_facts,
    cell_use,
    logged_cell,
    logged_pool,
    pool_facts,
    read_cell,
    read_pool,
    share_as_json,
    share_from_json,
)
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate
from kilonova.model.guest_devices import GuestDevice, GuestDevices, devices_of_ports
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import HostCell
from kilonova.model.pci import CardFacts, PciPool
from kilonova.records import dataclass

_CELL, _POOL, _SHARE = t.numa_cells.c, t.pci_pools.c, t.device_shares.c
_NODE_OF = Prepared(sa.select(_SHARE.node_uuid).where(_SHARE.instance_uuid == sa.bindparam("instance_uuid")))


@dataclass(frozen=True, slots=True)
class Taking:
    """A server's ``share`` of the devices of the hypervisor ``node_uuid``."""

    instance_uuid: str
    node_uuid: str
    share: DeviceShare


def report_all(tx: Transaction, said: Mapping[str, HostDevices]) -> None:
    """Store the devices that agents report, by hypervisor uuid. Writes nothing for unchanged hypervisors."""
    known = _read(tx.connection, said).hosts if said else {}
    for node_uuid, devices in said.items():
        _report(tx, node_uuid, known[node_uuid], devices)


def _report(tx: Transaction, node_uuid: str, known: HostDevices, said: HostDevices) -> None:
    """Store the devices that an agent reports for a hypervisor, and recompute their usage.

    A pool keeps its number. A pool that is no longer reported stays, with a total of 0, until no server holds devices
    of that pool.
    """
    present = _with_numbers(known, said)
    if _facts(present) == _facts(known):
        return
    shares = _shares_on(tx.connection, node_uuid)
    held = {number for share in shares for number, _ in share.devices}
    gone = tuple(
        replace(pool, total=0, addresses=())
        for pool in known.pools
        if pool.number in held and pool.identity not in {each.identity for each in present.pools}
    )
    _store(tx, node_uuid, replace(present, pools=(*present.pools, *gone)).used_by(shares))
    _complete_shares(tx, node_uuid, present)


def _complete_shares(tx: Transaction, node_uuid: str, host: HostDevices) -> None:
    """Assign PCI addresses to servers that took their devices before the host reported addresses."""
    taken = addresses_on(tx.connection, [node_uuid])[node_uuid]
    rows = tx.execute(sa.select(_SHARE.instance_uuid, _SHARE.body).where(_SHARE.node_uuid == node_uuid)).all()
    for row in sorted(rows, key=lambda row: row.instance_uuid):
        share = share_from_json(row.body)
        complete = host.with_addresses(share, taken)
        if complete != share:
            taken |= _addresses(complete)
            mine = _SHARE.instance_uuid == row.instance_uuid
            tx.execute(sa.update(t.device_shares).where(mine).values(body=share_as_json(complete)))


def get(connection: Connection, node_uuid: str) -> HostDevices:
    """Return the NUMA cells and PCI pools of a hypervisor."""
    return _read(connection, [node_uuid]).hosts[node_uuid]


def list_all(connection: Connection) -> Mapping[str, HostDevices]:
    """Return hypervisor uuid → NUMA cells and PCI pools, for every hypervisor with cells or pools."""
    return _read(connection).hosts


def list_logged(connection: Connection) -> Mapping[str, LoggedDevices]:
    """Return hypervisor uuid → cells and pools as :func:`as_logged` returns them, but read directly from the rows."""
    cells: dict[str, list[LoggedCell]] = defaultdict(list)
    pools: dict[str, list[LoggedPool]] = defaultdict(list)
    for row in connection.execute(sa.select(t.numa_cells).order_by(_CELL.node_uuid, _CELL.cell)):
        cells[row.node_uuid].append(logged_cell(row.cell, row.facts, row.used))
    for row in connection.execute(sa.select(t.pci_pools).order_by(_POOL.node_uuid, _POOL.number)):
        pools[row.node_uuid].append(logged_pool(row.number, row.facts, row.total, row.used))
    return {uuid: LoggedDevices(cells.get(uuid, []), pools.get(uuid, [])) for uuid in {**cells, **pools}}


def of_guest(connection: Connection, instance_uuid: str) -> GuestDevices:
    """Return the devices of a server in the form that the virt driver gets, without those for ports."""
    found = _held_by(connection, instance_uuid)
    return GuestDevices() if found is None else GuestDevices.of(*found)


def of_ports(connection: Connection, instance_uuid: str) -> dict[str, GuestDevice]:
    """Return port id → PCI device that a server holds for the port."""
    found = _held_by(connection, instance_uuid)
    return {} if found is None else devices_of_ports(*found)


def _held_by(connection: Connection, instance_uuid: str) -> tuple[DeviceShare, HostDevices] | None:
    wanted = sa.select(_SHARE.node_uuid, _SHARE.body).where(_SHARE.instance_uuid == instance_uuid)
    row = connection.execute(wanted).first()
    return None if row is None else (share_from_json(row.body), get(connection, row.node_uuid))


def shares(connection: Connection) -> tuple[Taking, ...]:
    """Return the NUMA and PCI shares of all servers."""
    rows = connection.execute(sa.select(t.device_shares).order_by(_SHARE.instance_uuid))
    return tuple(Taking(row.instance_uuid, row.node_uuid, share_from_json(row.body)) for row in rows)


def take(tx: Transaction, takings: Sequence[Taking]) -> bool:
    """Take the shares of ``takings`` in order. Return False if devices are missing; the caller must then roll back."""
    if not takings:
        return True
    before = _read(tx.connection, {taking.node_uuid for taking in takings})
    after = dict(before.hosts)
    for taking in takings:
        if not after[taking.node_uuid].can_give(taking.share):
            return False
        after[taking.node_uuid] = after[taking.node_uuid].taking(taking.share)
    if not _write_use(tx, before, after):
        return False
    rows = [
        {"instance_uuid": each.instance_uuid, "node_uuid": each.node_uuid, "body": share_as_json(each.share)}
        for each in _with_addresses(tx, takings, before.hosts)
    ]
    tx.execute(sa.insert(t.device_shares), rows)
    return True


def _with_addresses(tx: Transaction, takings: Sequence[Taking], hosts: Mapping[str, HostDevices]) -> Sequence[Taking]:
    """Choose PCI addresses for each server, on hypervisors that report addresses."""
    nodes = {taking.node_uuid for taking in takings if taking.share.devices}
    nodes = {uuid for uuid in nodes if any(pool.addresses for pool in hosts[uuid].pools)}
    if not nodes:
        return takings
    taken = addresses_on(tx.connection, sorted(nodes))
    chosen = []
    for taking in takings:
        if taking.node_uuid in nodes:
            share = hosts[taking.node_uuid].with_addresses(taking.share, taken[taking.node_uuid])
            taken[taking.node_uuid] |= _addresses(share)
            chosen.append(replace(taking, share=share))
        else:
            chosen.append(taking)
    return chosen


def addresses_on(connection: Connection, nodes: Sequence[str]) -> dict[str, set[str]]:
    """Return hypervisor uuid → PCI addresses that servers hold there."""
    found: dict[str, set[str]] = {uuid: set() for uuid in nodes}
    for row in connection.execute(sa.select(_SHARE.node_uuid, _SHARE.body).where(_SHARE.node_uuid.in_(nodes))):
        found[row.node_uuid] |= _addresses(share_from_json(row.body))
    return found


def _addresses(share: DeviceShare) -> set[str]:
    return {address for _, addresses in share.addresses for address in addresses}


def give_back(tx: Transaction, instance_uuid: str) -> None:
    """Release the share of a server; no error if absent."""
    rows = _NODE_OF.rows(tx.connection, instance_uuid=instance_uuid)
    if rows:
        tx.execute(sa.delete(t.device_shares).where(_SHARE.instance_uuid == instance_uuid))
        recount(tx, rows[0][0])


def hand_over(tx: Transaction, heirs: Mapping[str, str]) -> None:
    """Move the share of each giver to its taker (``heirs``: giver → taker). The usage of hypervisors stays the same."""
    _HAND_OVER.run(tx, [{"giver": giver, "taker": taker} for giver, taker in sorted(heirs.items())])


def recount(tx: Transaction, node_uuid: str) -> None:
    """Recompute the guard rows of a hypervisor from the shares; delete pools that have neither devices nor servers."""
    known = _read(tx.connection, [node_uuid])
    right = known.hosts[node_uuid].used_by(_shares_on(tx.connection, node_uuid))
    kept = tuple(pool for pool in right.pools if pool.total or pool.used)
    if kept != right.pools:
        _store(tx, node_uuid, replace(right, pools=kept))
    elif not _write_use(tx, known, {node_uuid: right}):
        raise ConcurrentUpdate("The NUMA cells of the host were changed by another transaction.")


def delete(tx: Transaction, node_uuid: str) -> None:
    """Delete the cells, pools and shares of a hypervisor; no error if absent."""
    tables = (t.numa_cells, t.pci_pools, t.device_shares)
    if sum(tx.execute(sa.delete(table).where(table.c.node_uuid == node_uuid)).rowcount for table in tables):
        tx.log("devices", node_uuid, None)


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """Devices by hypervisor uuid, and the version of each of their cells."""

    hosts: Mapping[str, HostDevices]
    versions: Mapping[tuple[str, int], int]


def _read(connection: Connection, nodes: Collection[str] | None = None) -> _Read:
    """Read the devices of ``nodes``, or of all hypervisors if None."""
    cells: dict[str, list[HostCell]] = defaultdict(list)
    pools: dict[str, list[PciPool]] = defaultdict(list)
    versions: dict[tuple[str, int], int] = {}
    all_cells, all_pools = sa.select(t.numa_cells), sa.select(t.pci_pools)
    if nodes is not None:
        all_cells = all_cells.where(_CELL.node_uuid.in_(sorted(nodes)))
        all_pools = all_pools.where(_POOL.node_uuid.in_(sorted(nodes)))
    for row in connection.execute(all_cells.order_by(_CELL.node_uuid, _CELL.cell)):
        cells[row.node_uuid].append(read_cell(row.cell, row.facts, row.used))
        versions[row.node_uuid, row.cell] = row.version
    for row in connection.execute(all_pools.order_by(_POOL.node_uuid, _POOL.number)):
        pools[row.node_uuid].append(read_pool(row.number, row.facts, row.total, row.used))
    known = [*cells, *pools] if nodes is None else nodes
    hosts = {uuid: HostDevices(tuple(cells.get(uuid, ())), tuple(pools.get(uuid, ()))) for uuid in known}
    return _Read(hosts, versions)


def _shares_on(connection: Connection, node_uuid: str) -> list[DeviceShare]:
    bodies = connection.execute(sa.select(_SHARE.body).where(_SHARE.node_uuid == node_uuid)).scalars()
    return [share_from_json(body) for body in bodies]


def _with_numbers(known: HostDevices, said: HostDevices) -> HostDevices:
    """Return reported devices in stored form: sorted, with equal pools merged, and with pool numbers."""
    totals: Counter[Any] = Counter()
    addresses: dict[Any, list[str]] = defaultdict(list)
    cards: dict[Any, dict[str, CardFacts]] = defaultdict(dict)
    for pool in said.pools:
        totals[pool.identity] += pool.total
        addresses[pool.identity] += pool.addresses
        cards[pool.identity] |= dict(pool.cards)
    numbers = {pool.identity: pool.number for pool in known.pools}
    fresh = max(numbers.values(), default=-1) + 1
    for identity in totals:
        if identity not in numbers:
            numbers[identity] = fresh
            fresh += 1
    pools = []
    for identity, total in totals.items():
        pool = PciPool(numbers[identity], identity[0], identity[1], total, *identity[2:])
        if len(set(addresses[identity])) == total:
            known_cards = tuple(sorted(cards[identity].items(), key=lambda pair: pair[0]))
            pool = replace(pool, addresses=tuple(addresses[identity]), cards=known_cards)
        pools.append(pool)
    cells = (
        replace(cell, pages=tuple(sorted(cell.pages, key=lambda pages: pages.size_kib)))
        for cell in sorted(said.cells, key=lambda cell: cell.id)
    )
    return HostDevices(tuple(cells), tuple(sorted(pools, key=lambda pool: pool.number)))


def _facts(devices: HostDevices) -> tuple[Any, ...]:
    """Return cells and non-empty pools without their usage, for comparison."""
    cells = [(cell.id, cell_facts(cell)) for cell in devices.cells]
    pools = [
        (pool.number, pool.identity, pool.total, pool.addresses, pool.cards) for pool in devices.pools if pool.total
    ]
    return cells, pools


def _store(tx: Transaction, node_uuid: str, devices: HostDevices) -> None:
    """Replace the guard rows of a hypervisor."""
    version = tx.execute(sa.select(sa.func.max(_CELL.version)).where(_CELL.node_uuid == node_uuid)).scalar() or 0
    for table in (t.numa_cells, t.pci_pools):
        tx.execute(sa.delete(table).where(table.c.node_uuid == node_uuid))
    cells = [
        {
            "node_uuid": node_uuid,
            "cell": cell.id,
            "facts": cell_facts(cell),
            "used": cell_use(cell),
            "version": version + 1,
        }
        for cell in devices.cells
    ]
    pools = [
        {
            "node_uuid": node_uuid,
            "number": pool.number,
            "facts": {**pool_facts(pool), "addresses": list(pool.addresses), "cards": card_facts(pool)},
            "total": pool.total,
            "used": pool.used,
        }
        for pool in devices.pools
    ]
    for table, rows in ((t.numa_cells, cells), (t.pci_pools, pools)):
        if rows:
            tx.execute(sa.insert(table), rows)
    tx.log("devices", node_uuid, as_logged(devices))


def _write_use(tx: Transaction, before: _Read, after: Mapping[str, HostDevices]) -> bool:
    """Write the usage of each hypervisor. Returns False if a guard fails; the caller must then roll back."""
    cells: list[dict[str, Any]] = []
    pools: list[dict[str, Any]] = []
    for uuid, host in sorted(after.items()):
        old = before.hosts[uuid]
        cells += (
            {"node": uuid, "cell": now.id, "version": before.versions[uuid, now.id], "used": cell_use(now)}
            for was, now in zip(old.cells, host.cells, strict=True)
            if was != now
        )
        pools += (
            {"node": uuid, "number": now.number, "amount": now.used - was.used}
            for was, now in zip(old.pools, host.pools, strict=True)
            if was != now
        )
    if _USE_CELLS.run(tx, cells) != len(cells) or _USE_POOLS.run(tx, pools) != len(pools):
        return False
    for uuid, host in after.items():
        if host != before.hosts[uuid]:
            tx.log("devices", uuid, as_logged(host))
    return True


_USE_CELLS = ManyRows(
    {"node": _CELL.node_uuid.type, "cell": sa.BigInteger(), "version": sa.BigInteger(), "used": _CELL.used.type},
    lambda given: (
        sa.update(t.numa_cells)
        .where(_CELL.node_uuid == given["node"], _CELL.cell == given["cell"], _CELL.version == given["version"])
        .values(used=given["used"], version=_CELL.version + 1)
    ),
)
_USE_POOLS = ManyRows(
    {"node": _POOL.node_uuid.type, "number": sa.BigInteger(), "amount": sa.BigInteger()},
    lambda given: (
        sa.update(t.pci_pools)
        .where(
            _POOL.node_uuid == given["node"],
            _POOL.number == given["number"],
            (given["amount"] < 0) | (_POOL.used + given["amount"] <= _POOL.total),
        )
        .values(used=_POOL.used + given["amount"])
    ),
)
_HAND_OVER = ManyRows(
    {"giver": _SHARE.instance_uuid.type, "taker": _SHARE.instance_uuid.type},
    lambda given: (
        sa.update(t.device_shares).where(_SHARE.instance_uuid == given["giver"]).values(instance_uuid=given["taker"])
    ),
)
