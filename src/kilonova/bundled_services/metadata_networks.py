# SPDX-License-Identifier: Apache-2.0
"""Read from the databases of OVN and Open vSwitch which networks have guests that need the metadata service."""

from collections.abc import Iterable

from kilonova.bundled_services.ovsdb_client import Row
from kilonova.records import dataclass

#: Tables and columns that are read: in OVN's northbound database, and in the database of Open vSwitch.
NORTHBOUND = {
    "Logical_Switch": ("name", "ports"),
    "Logical_Switch_Port": ("_uuid", "name", "type", "addresses", "external_ids"),
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
    switches: Iterable[Row], ports: Iterable[Row], interfaces: Iterable[Row]
) -> tuple[MetadataNetwork, ...]:
    """Return the networks with guests on this host. Parameters: rows of the tables in NORTHBOUND and SWITCH."""
    by_id = {port["_uuid"]: port for port in ports}
    plugged = {ids.get("iface-id") for each in interfaces if (ids := each["external_ids"])}
    found = []
    for switch in switches:
        members = [by_id[each] for each in _members(switch["ports"]) if each in by_id]
        own = next((port for port in members if port["type"] == "localport"), None)
        guests = [port for port in members if port["type"] == "" and port["external_ids"].get("neutron:device_id")]
        if own is None or not any(port["name"] in plugged for port in guests):
            continue
        addresses = _texts(own["addresses"])
        if addresses and (cidrs := tuple(own["external_ids"].get("neutron:cidrs", "").split())):
            network = str(switch["name"]).removeprefix(_PREFIX)
            found.append(MetadataNetwork(network, own["name"], addresses[0].split()[0], cidrs))
    return tuple(found)


def _members(value: object) -> tuple[str, ...]:
    """Return the ids in a column of type set. OVSDB may represent a set of one element by the element alone."""
    return value if isinstance(value, tuple) else (str(value),)


_texts = _members
