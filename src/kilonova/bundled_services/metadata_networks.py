# SPDX-License-Identifier: Apache-2.0
"""Read from the databases of OVN and Open vSwitch which networks have guests that need the metadata service."""

from collections import defaultdict
from collections.abc import Iterable

from kilonova.bundled_services.ovsdb_client import Row
from kilonova.records import dataclass

#: Tables and columns that are read: in OVN's southbound database, and in the database of Open vSwitch.
SOUTHBOUND = {
    "Datapath_Binding": ("_uuid", "external_ids"),
    "Port_Binding": ("logical_port", "type", "datapath", "mac", "external_ids"),
}
SWITCH = {"Interface": ("name", "external_ids")}
_PREFIX = "neutron-"


@dataclass(frozen=True, slots=True)
class MetadataNetwork:
    """A network with guests on this host.

    ``port``, ``mac``, ``cidrs``: Neutron's port for the metadata service, with its addresses.
    """

    id: str
    port: str
    mac: str
    cidrs: tuple[str, ...]


def networks_of(
    datapaths: Iterable[Row], ports: Iterable[Row], interfaces: Iterable[Row]
) -> tuple[MetadataNetwork, ...]:
    """Return the networks with guests on this host. Parameters: rows of the tables in SOUTHBOUND and SWITCH."""
    members: defaultdict[str, list[Row]] = defaultdict(list)
    for port in ports:
        members[port["datapath"]].append(port)
    plugged = {ids.get("iface-id") for each in interfaces if (ids := each["external_ids"])}
    found = []
    for datapath in datapaths:
        of_network = members[datapath["_uuid"]]
        own = next((port for port in of_network if port["type"] == "localport"), None)
        guests = [port for port in of_network if port["type"] == "" and port["external_ids"].get("neutron:device_id")]
        if own is None or not any(port["logical_port"] in plugged for port in guests):
            continue
        addresses = _texts(own["mac"])
        if addresses and (cidrs := tuple(own["external_ids"].get("neutron:cidrs", "").split())):
            network = str(datapath["external_ids"].get("name", "")).removeprefix(_PREFIX)
            found.append(MetadataNetwork(network, own["logical_port"], addresses[0].split()[0], cidrs))
    return tuple(found)


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts in a column of type set. OVSDB may represent a set of one element by the element alone."""
    return value if isinstance(value, tuple) else (str(value),)
