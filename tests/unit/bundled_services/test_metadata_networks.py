# SPDX-License-Identifier: Apache-2.0
"""Networks that need the metadata service, from rows of the databases of OVN and Open vSwitch."""

from typing import Any

from kilonova.bundled_services.metadata_networks import MetadataNetwork, networks_of

MAC = "fa:16:3e:00:00:01"
NET = {"_uuid": "row-net", "external_ids": {"name": "neutron-net", "logical-switch": "ls"}}


def port(name: str, kind: str = "", mac: Any = (), datapath: str = "row-net", **ids: str) -> dict[str, Any]:
    named = {f"neutron:{key}": value for key, value in ids.items()}
    return {"logical_port": name, "type": kind, "datapath": datapath, "mac": mac, "external_ids": named}


OWN = port("own", "localport", f"{MAC} 10.1.0.2", cidrs="10.1.0.2/24 fd00::2/64")
GUEST = port("guest", cidrs="10.1.0.9/24 fd00::9/64", device_id="server", project_id="wonder")
ROUTER = port("router", "patch", cidrs="10.1.0.1/24", device_id="router")
PLUGGED = ({"name": "tapguest", "external_ids": {"iface-id": "guest"}}, {"name": "br-int", "external_ids": {}})


def test_a_network_with_a_guest_here() -> None:
    (network,) = networks_of([NET], (OWN, GUEST, ROUTER), PLUGGED)
    assert network == MetadataNetwork("net", "own", MAC, ("10.1.0.2/24", "fd00::2/64"))


def test_other_networks_need_none() -> None:
    elsewhere = port("guest", datapath="row-other", device_id="server")
    for ports, plugged in (
        ((OWN, GUEST), ()),  # its guest is off, or elsewhere
        ((GUEST,), PLUGGED),  # no subnet has DHCP
        ((OWN,), PLUGGED),
        ((OWN, elsewhere), PLUGGED),
        ((port("own", "localport", f"{MAC}"), GUEST), PLUGGED),
    ):
        assert networks_of([NET], ports, plugged) == ()


def test_a_port_of_a_network_that_was_just_deleted_is_skipped() -> None:
    assert networks_of([], (OWN, GUEST, ROUTER), PLUGGED) == ()
