# SPDX-License-Identifier: Apache-2.0
"""Networks that need the metadata service, from rows of the databases of OVN and Open vSwitch."""

from typing import Any

from kilonova.bundled_services.metadata_networks import MetadataNetwork, networks_of

MAC = "fa:16:3e:00:00:01"


def port(name: str, kind: str = "", addresses: Any = (), **ids: str) -> dict[str, Any]:
    named = {f"neutron:{key}": value for key, value in ids.items()}
    return {"_uuid": f"row-{name}", "name": name, "type": kind, "addresses": addresses, "external_ids": named}


OWN = port("own", "localport", f"{MAC} 10.1.0.2", cidrs="10.1.0.2/24 fd00::2/64")
GUEST = port("guest", cidrs="10.1.0.9/24 fd00::9/64", device_id="server", project_id="wonder")
ROUTER = port("router", "router", cidrs="10.1.0.1/24", device_id="router")
PLUGGED = ({"name": "tapguest", "external_ids": {"iface-id": "guest"}}, {"name": "br-int", "external_ids": {}})


def switch(*ports: dict[str, Any]) -> dict[str, Any]:
    rows = tuple(each["_uuid"] for each in ports)
    return {"name": "neutron-net", "ports": rows[0] if len(rows) == 1 else rows}


def test_a_network_with_a_guest_here() -> None:
    ports = (OWN, GUEST, ROUTER)
    (network,) = networks_of([switch(*ports)], ports, PLUGGED)
    assert network == MetadataNetwork("net", "own", MAC, ("10.1.0.2/24", "fd00::2/64"))


def test_other_networks_need_none() -> None:
    for ports, plugged in (
        ((OWN, GUEST), ()),  # its guest is off, or elsewhere
        ((GUEST,), PLUGGED),  # no subnet has DHCP
        ((OWN,), PLUGGED),
        ((port("own", "localport", f"{MAC}"), GUEST), PLUGGED),
    ):
        assert networks_of([switch(*ports)], ports, plugged) == ()


def test_a_port_that_was_just_deleted_is_skipped() -> None:
    assert len(networks_of([switch(OWN, GUEST, ROUTER)], (OWN, GUEST), PLUGGED)) == 1
