# SPDX-License-Identifier: Apache-2.0
"""Checks of a cloud at rest: servers, their cached interfaces, their guests and the ports at the network service."""

from collections import Counter
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.db import host_devices, instance_networks
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.model.instance import VmState
from support.cell import Cell
from support.fake_neutron import FakeNeutron
from support.network_agents import EGRESS, taken

#: States of servers whose guests have all interfaces of their servers.
_WITH_GUEST = {VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED, VmState.SUSPENDED, VmState.RESIZED}


#: Name of the ports that are not made for a server.
OF_USER = "of the user"


def check_networks(cell: Cell) -> None:
    """Check the ports of a cloud with a network service, as :func:`check_ports` does."""
    neutron = cell.neutron
    if neutron is not None:
        twice = getattr(neutron, "twice", False)
        unsure = frozenset(neutron.store["ports"]) if twice else frozenset()
        check_ports(cell.database, neutron, cell.folder / "hypervisors", unsure=unsure)
        networks = [port["network_id"] for port in neutron.store.where("ports", name=OF_USER)]
        wanted = [network["id"] for network in neutron.store.where("networks", name="other")]
        assert sorted(networks) == sorted(wanted), "a port of the user was deleted"


def check_ports(
    database: Database,
    neutron: FakeNeutron,
    hypervisors: Path,
    *,
    unsure: AbstractSet[str] = frozenset(),
    refused: AbstractSet[str] = frozenset(),
) -> None:
    """Assert that no port is left or lost: each belongs to a server with this interface, bound to the server's host.

    A released port of the user must have no trace of its server.
    ``hypervisors``: folder of the simulated hosts. ``unsure``: ports that their server need not know. ``refused``:
    ports whose bindings may be wrong, because a change was refused.
    """
    with database.read() as connection:
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
        assert ports.keys() - interfaces <= unsure, (uuid, vm_state, ports.keys() - interfaces)
        bound = {port["binding:host_id"] for port_id, port in ports.items() if port_id not in refused}
        assert bound <= {host or ""}, (uuid, vm_state, host, bound)
        wanted = Counter[str]()
        for vif in infos.get(uuid, ()):
            wanted.update(
                {provider: amounts[EGRESS] for provider, amounts in vif.resources.items() if EGRESS in amounts}
            )
        given = taken(database, uuid, EGRESS)
        assert {provider: amounts[EGRESS] for provider, amounts in given.items()} == wanted, (uuid, vm_state)
        stored = neutron.store.where("ports", device_id=uuid)
        assert all(len(port["_bindings"]) <= 1 or port["id"] in refused for port in stored), (uuid, stored)
        if host is not None and vm_state in _WITH_GUEST:
            guest = GuestFile(host, hypervisors / f"{host}.json").guest(uuid)
            assert guest is not None
            assert set(guest.ports) == interfaces, (uuid, vm_state, guest.ports, interfaces)
    _check_devices(database)
    for port in neutron.store.where("ports", name=OF_USER):
        if not port["device_id"] and port["id"] not in refused:
            assert (port["device_owner"], port["binding:host_id"], port["binding:profile"]) == ("", "", {}), port


def _check_devices(database: Database) -> None:
    """Assert that servers hold PCI devices for their own ports only, each of them once, and as many as are counted."""
    with database.read() as connection:
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


def shown_networks(cell: Cell, uuid: str) -> list[Any]:
    """Return the interfaces of a server without ids: network, created or not, host of the port.

    Whether a port counts as plugged is left out: an event may come while the process is dead.
    """
    assert cell.neutron is not None
    hosts = {port["id"]: port["binding:host_id"] for port in cell.neutron.ports_of(uuid)}
    return [[vif.network.label, vif.created, hosts.get(vif.port_id)] for vif in cell.interfaces(uuid)]
