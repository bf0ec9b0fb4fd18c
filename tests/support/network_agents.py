# SPDX-License-Identifier: Apache-2.0
"""Resource providers of Neutron's agents below those of hosts, as Neutron creates them by the Placement API."""

from uuid import uuid4

import sqlalchemy as sa

from kilonova.db import allocations, inventories, provider_traits, providers, resource_classes, traits
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.provider import Inventory

EGRESS, INGRESS, PACKETS = (
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
)


def add_agent(
    database: Database, host: str, *, bandwidth: int = 10_000, packets: int = 0, physical: str = "public"
) -> str:
    """Add an Open vSwitch agent with a bridge to a host; return the uuid of the bridge's provider.

    ``packets``: packet rate of the agent. ``bandwidth``: in kbit/s, in either direction, of the bridge.
    """
    agent, bridge = str(uuid4()), str(uuid4())
    vnic = "CUSTOM_VNIC_TYPE_NORMAL"

    def add(tx: Transaction) -> None:
        nodes = t.compute_nodes.c
        root = tx.execute(sa.select(nodes.uuid).where(nodes.host == host)).scalar_one()
        for name in (vnic, physnet := f"CUSTOM_PHYSNET_{physical.upper()}"):
            traits.ensure(tx, name)
        for name in (EGRESS, INGRESS, PACKETS):
            resource_classes.ensure(tx, name)
        providers.create(tx, agent, f"{host}:Open vSwitch agent:{agent}", root)
        providers.create(tx, bridge, f"{host}:Open vSwitch agent:br-{physical}:{bridge}", agent)
        if packets:
            inventories.replace(tx, providers.get(tx.connection, agent), [Inventory(PACKETS, packets)])
        provider_traits.replace(tx, providers.get(tx.connection, agent), [vnic])
        given = [Inventory(EGRESS, bandwidth), Inventory(INGRESS, bandwidth)]
        inventories.replace(tx, providers.get(tx.connection, bridge), given)
        provider_traits.replace(tx, providers.get(tx.connection, bridge), [vnic, physnet])

    database.write(add)
    return bridge


def taken(database: Database, consumer: str, *classes: str) -> dict[str, dict[str, int]]:
    """Return what a server has of some classes, by provider."""
    with database.read() as connection:
        found = allocations.for_consumer(connection, consumer)
    given = {} if found is None else found.allocations
    some = {uuid: {name: each[name] for name in classes if name in each} for uuid, each in given.items()}
    return {uuid: each for uuid, each in some.items() if each}
