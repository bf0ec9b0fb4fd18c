# SPDX-License-Identifier: Apache-2.0
"""Checks of a cloud at rest: servers, their cached interfaces, their guests and the ports at the network service."""

from collections import Counter
from typing import Any

import sqlalchemy as sa

from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.db import host_devices, instance_networks
from kilonova.db.core import tables as t
from kilonova.model.instance import VmState
from support.cell import Cell
from support.fake_neutron import FakeNeutron
from support.network_agents import EGRESS, taken

#: States of servers whose guests have all interfaces of their servers.
_WITH_GUEST = {VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED, VmState.SUSPENDED, VmState.RESIZED}


def check_networks(cell: Cell) -> None:
    """Assert that no port is left or lost: each belongs to a server with this interface, bound to the server's host."""
    neutron = cell.neutron
    if neutron is None:
        return
    with cell.database.read() as connection:
        columns = t.instances.c
        servers = sa.select(columns.uuid, columns.host, columns.vm_state).where(columns.deleted.is_(False))
        present = {row.uuid: (row.host, VmState(row.vm_state)) for row in connection.execute(servers)}
        infos = instance_networks.infos_of(connection, list(present))
        rows = set(connection.execute(sa.select(t.instance_networks.c.instance_uuid)).scalars())
    assert rows <= present.keys(), "interfaces of deleted servers"
    used = {port["device_id"] for port in neutron.store["ports"].values()} - {""}
    assert used <= present.keys(), "ports of servers that do not exist"
    for uuid, (host, vm_state) in present.items():
        interfaces = {vif.port_id for vif in infos.get(uuid, ())}
        ports = {port["id"]: port for port in neutron.ports_of(uuid)}
        assert interfaces <= ports.keys(), (uuid, vm_state)
        assert interfaces == ports.keys() or getattr(neutron, "twice", False), (uuid, vm_state)
        assert {port["binding:host_id"] for port in ports.values()} <= {host or ""}, (uuid, vm_state)
        wanted = Counter[str]()
        for vif in infos.get(uuid, ()):
            wanted.update(
                {provider: amounts[EGRESS] for provider, amounts in vif.resources.items() if EGRESS in amounts}
            )
        given = taken(cell.database, uuid, EGRESS)
        assert {provider: amounts[EGRESS] for provider, amounts in given.items()} == wanted, (uuid, vm_state)
        assert all(len(port["_bindings"]) <= 1 for port in neutron.store.where("ports", device_id=uuid))
        if host is not None and vm_state in _WITH_GUEST:
            guest = GuestFile(host, cell.folder / "hypervisors" / f"{host}.json").guest(uuid)
            assert guest is not None
            assert set(guest.ports) == interfaces, (uuid, vm_state)
    _check_devices(cell)
    _check_of_user(neutron)


def _check_devices(cell: Cell) -> None:
    """Assert that servers hold PCI devices for their own ports only, each of them once, and as many as are counted."""
    with cell.database.read() as connection:
        takings, hosts = host_devices.shares(connection), host_devices.list_all(connection)
        infos = instance_networks.infos_of(connection, [each.instance_uuid for each in takings])
    counted, addresses = Counter[tuple[str, int]](), Counter[tuple[str, str]]()
    for each in takings:
        ports = {vif.port_id for vif in infos.get(each.instance_uuid, ())}
        assert {port for port, _ in each.share.ports} <= ports or each.instance_uuid not in infos, each
        counted.update({(each.node_uuid, number): count for number, count in each.share.devices})
        addresses.update((each.node_uuid, address) for _, which in each.share.addresses for address in which)
    used = {(node, pool.number): pool.used for node, found in hosts.items() for pool in found.pools if pool.used}
    assert used == dict(counted)
    assert set(addresses.values()) <= {1}


def _check_of_user(neutron: FakeNeutron) -> None:
    """Assert that each network "other" has its port of the user, and that a released one has no trace of its server."""
    of_user = neutron.store.where("ports", name="of the user")
    wanted = {network["id"] for network in neutron.store.where("networks", name="other")}
    assert sorted(port["network_id"] for port in of_user) == sorted(wanted), "a port of the user was deleted"
    for port in of_user:
        if not port["device_id"]:
            assert (port["device_owner"], port["binding:host_id"], port["binding:profile"]) == ("", "", {})


def shown_networks(cell: Cell, uuid: str) -> list[Any]:
    """Return the interfaces of a server without ids: network, created or not, host of the port.

    Whether a port counts as plugged is left out: an event may come while the process is dead.
    """
    assert cell.neutron is not None
    hosts = {port["id"]: port["binding:host_id"] for port in cell.neutron.ports_of(uuid)}
    return [[vif.network.label, vif.created, hosts.get(vif.port_id)] for vif in cell.interfaces(uuid)]
