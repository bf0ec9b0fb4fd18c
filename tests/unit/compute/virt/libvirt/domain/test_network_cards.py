# SPDX-License-Identifier: Apache-2.0
"""Ports of the network service as devices of a guest; ports that the host cannot plug are refused."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.compute.virt.libvirt.domain.description import Domain
from kilonova.compute.virt.libvirt.domain.device_description import (
    BridgeSource,
    HostDevice,
    MacvtapSource,
    Nic,
    PciSource,
)
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.network_cards import CardStyle, card_style, describe_vif
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestDevice, GuestDevices
from kilonova.model.network_info import Vif, VifNetwork
from support.guest_descriptions import described, guest_of

PORT = "0aa7b1c2-1111-4222-8333-444455556666"
OTHER = "f00db1c2-1111-4222-8333-444455556666"
NETWORK = "abcdef01-2345-4678-9abc-def012345678"
LIBVIRT = LibvirtSettings()
SRIOV = {"vif_type": "hw_veb", "vnic_type": "direct", "profile": {"pci_slot": "0000:81:00.1"}}
WHOLE = {"vif_type": "hostdev_physical", "vnic_type": "direct-physical", "profile": {"pci_slot": "0000:82:00.0"}}


REMOTE_FACTS = {"card_serial_number": "MT2113X00000", "pf_mac_address": "0c:42:a1:de:cf:7c", "vf_num": 3}
REMOTE = {"vnic_type": "remote-managed", "profile": {"pci_slot": "0000:81:00.1", **REMOTE_FACTS}}


def vif(**fields: Any) -> Vif:
    network = VifNetwork(id=NETWORK, label="private", mtu=fields.pop("mtu", 1442), bridge=fields.pop("bridge", None))
    return Vif(**{"port_id": PORT, "mac": "fa:16:3e:00:00:01", "network": network, "vif_type": "ovs", **fields})


def nic(style: CardStyle | None = None, libvirt: LibvirtSettings = LIBVIRT, **fields: Any) -> Nic:
    found = describe_vif(vif(**fields), style or CardStyle(), libvirt)
    assert isinstance(found, Nic)
    return found


def refusal(**fields: Any) -> str:
    with pytest.raises(UnsupportedGuest) as refused:
        describe_vif(vif(**fields), CardStyle(), LIBVIRT)
    return refused.value.message


def test_a_remote_managed_port_is_its_virtual_function() -> None:
    device = HostDevice(0, 0x81, 0, 1)
    assert nic(**REMOTE) == Nic(mac="fa:16:3e:00:00:01", source=PciSource(device), model=None, alias=f"ua-{PORT}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("card_serial_number", None),
        ("card_serial_number", ""),
        ("pf_mac_address", None),
        ("pf_mac_address", "01:02"),
        ("pf_mac_address", 7),
        ("vf_num", None),
        ("vf_num", -1),
        ("vf_num", True),
        ("vf_num", "3"),
        ("pci_slot", None),
    ],
)
def test_a_remote_managed_port_without_its_card(key: str, value: Any) -> None:
    assert key in refusal(**{**REMOTE, "profile": {**REMOTE["profile"], key: value}})


def test_a_port_of_open_vswitch() -> None:
    assert nic() == Nic(
        mac="fa:16:3e:00:00:01",
        source=BridgeSource("br-int", PORT),
        alias=f"ua-{PORT}",
        target="tap0aa7b1c2-11",
        mtu=1442,
    )
    assert nic(mtu=None).mtu is None
    for named in ({"bridge": "br7"}, {"details": {"bridge_name": "br7"}}):
        assert nic(**named).source == BridgeSource("br7", PORT)
    assert nic(libvirt=LibvirtSettings(ovs_bridge="br9")).source == BridgeSource("br9", PORT)


def test_guests_fill_in_checksums_for_a_datapath_in_user_space() -> None:
    netdev = {"details": {"datapath_type": "netdev"}}
    assert not nic(**netdev).offloads
    assert nic(details={"datapath_type": "system"}).offloads
    assert nic(CardStyle("e1000"), **netdev).offloads  # this card fills them in anyway


def test_a_port_of_a_kernel_bridge() -> None:
    assert nic(vif_type="bridge").source == BridgeSource("brqabcdef01-23")
    assert nic(vif_type="bridge", bridge="br0").source == BridgeSource("br0")


def test_a_macvtap_port() -> None:
    details = {"macvtap_source": "eth1", "macvtap_mode": "bridge", "physical_interface": "eth1"}
    found = nic(vif_type="macvtap", vnic_type="macvtap", details=details)
    assert (found.source, found.mtu) == (MacvtapSource("eth1", "bridge"), None)  # libvirt refuses an MTU
    assert "VLAN device" in refusal(vif_type="macvtap", details={**details, "vlan": 7})
    assert "macvtap_mode" in refusal(vif_type="macvtap", details={**details, "macvtap_mode": "tunnel"})
    assert "macvtap_source" in refusal(vif_type="macvtap", details={"macvtap_mode": "vepa"})


@pytest.mark.parametrize(("given", "vlan"), [({}, None), ({"vlan": "0"}, None), ({"vlan": 7}, 7), ({"vlan": "7"}, 7)])
def test_a_virtual_function(given: dict[str, Any], vlan: int | None) -> None:
    found = nic(**SRIOV, details=given)
    assert found.source == PciSource(HostDevice(0, 0x81, 0, 1), vlan)
    assert (found.model, found.target, found.mtu) == (None, None, None)


@pytest.mark.parametrize("vlan", [4095, "-1", "x", [1], "٣"])
def test_a_vlan_that_cannot_be(vlan: object) -> None:
    assert "impossible VLAN" in refusal(**SRIOV, details={"vlan": vlan})


def test_a_whole_card() -> None:
    assert describe_vif(vif(**WHOLE), CardStyle(), LIBVIRT) == HostDevice(0, 0x82, 0, 0, alias=f"ua-{PORT}")


def test_a_device_that_the_claim_reserved_for_a_port_is_there_once() -> None:
    reserved = tuple(
        GuestDevice(address, "8086", "154d", "type-VF") for address in ("0000:81:00.1", "0000:82:00.0", "0000:83:00.0")
    )
    ports = (vif(**SRIOV), vif(port_id=OTHER, **WHOLE))
    devices = described(guest_of(reserved=GuestDevices((), reserved), vifs=ports)).devices
    assert [each.bus for each in devices.host_devices] == [0x83, 0x82]
    assert len(devices.nics) == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"vif_type": "binding_failed"}, f"Binding failed for port {PORT}, please check neutron logs"),
        ({"vif_type": "unbound"}, "is not bound to this host"),
        ({"vif_type": "vhostuser"}, "vif_type=vhostuser and vnic_type=normal, which this host does not support"),
        ({"vnic_type": "direct"}, "vif_type=ovs and vnic_type=direct"),
        ({"details": {"ovs_hybrid_plug": True}}, "ovs_hybrid_plug"),
        ({"profile": {"pci_slot": "0000:81:00.1"}}, "offloaded"),
        ({"mtu": 20}, "impossible MTU, 20"),
        ({"mtu": 70000}, "impossible MTU"),
        ({"mac": "fa:16:3e:00:00"}, "invalid MAC address"),
        ({"mac": "01:00:5e:00:00:01"}, "invalid MAC address"),
        ({"port_id": "../x"}, "The port id ../x is not a UUID"),
        ({"bridge": "br int"}, "no usable bridge_name: br int"),
        ({"bridge": "a-name-of-sixteen"}, "no usable bridge_name"),
        ({**SRIOV, "profile": {}}, "no PCI address in its binding profile"),
        ({**WHOLE, "profile": {"pci_slot": "0000:82:00.0/.."}}, "no PCI address"),
    ],
)
def test_a_port_that_cannot_be_plugged_is_refused_by_name(fields: dict[str, Any], text: str) -> None:
    assert text in refusal(**fields)


def test_the_kind_of_card_is_what_flavor_and_image_choose() -> None:
    assert card_style(guest_of()) == CardStyle("virtio")
    assert card_style(guest_of(properties={"hw_vif_model": "VirtualE1000"})) == CardStyle("e1000")
    many = {"hw:vif_multiqueue_enabled": "true", "hw:virtio_packed_ring": "true"}
    assert card_style(guest_of(many, vcpus=4)) == CardStyle("virtio", 4, packed=True)
    assert card_style(guest_of(many)) == CardStyle("virtio", None, packed=True)
    assert card_style(guest_of(many, {"hw_vif_model": "e1000"}, vcpus=4)) == CardStyle("e1000")
    with pytest.raises(UnsupportedGuest, match="vif_multiqueue_enabled"):
        card_style(guest_of(many, {"hw_vif_multiqueue_enabled": "no"}, vcpus=4))


def test_queues_are_limited() -> None:
    many = CardStyle("virtio", 300)
    assert nic(many).queues == 256
    assert nic(many, LibvirtSettings(max_queues=8)).queues == 8
    assert nic().queues is None


def test_interfaces_keep_their_order() -> None:
    ports = (vif(port_id=OTHER), vif())
    assert [each.alias for each in described(guest_of(vifs=ports)).devices.nics] == [f"ua-{OTHER}", f"ua-{PORT}"]


_TEXT = st.text(max_size=20) | st.sampled_from(["'/><x/>", '"', "br-int", "../..", "a\nb", "\x00", "0000:81:00.1"])
_VALUES = st.one_of(_TEXT, st.integers(), st.booleans(), st.none(), st.lists(_TEXT, max_size=2))
_KEYS = st.sampled_from(["bridge_name", "datapath_type", "macvtap_source", "macvtap_mode", "vlan", "pci_slot"])
_DETAILS = st.dictionaries(_KEYS, _VALUES, max_size=4)
_TYPES = st.sampled_from(["ovs", "bridge", "macvtap", "hw_veb", "hostdev_physical"])
_VNICS = st.sampled_from(["normal", "direct", "macvtap", "direct-physical", "remote-managed"])


def outcome(port: Vif) -> Domain | str:
    """Return the description of a guest with a port, or why there is none."""
    try:
        return described(guest_of(vifs=(port,)))
    except UnsupportedGuest as refused:
        return refused.message


@settings(max_examples=150)
@given(_TYPES | _TEXT, _VNICS, _DETAILS, _DETAILS, _TEXT | st.just(PORT), st.none() | _TEXT)
def test_nonsense_is_refused_or_stays_a_value(
    vif_type: str, vnic_type: str, details: Any, profile: Any, port_id: str, bridge: str | None
) -> None:
    port = vif(vif_type=vif_type, vnic_type=vnic_type, details=details, profile=profile, port_id=port_id, bridge=bridge)
    domain = outcome(port)
    if isinstance(domain, str):
        assert domain.isprintable()
        assert len(domain) < 400
        return
    plain = {each.tag for each in ET.fromstring(domain_xml(described(guest_of())))}
    root = ET.fromstring(domain_xml(domain))
    assert {each.tag for each in root} == plain
    devices = root.find("devices")
    assert devices is not None
    assert len(devices.findall("interface") + devices.findall("hostdev")) == 1


def test_a_port_with_an_address_of_another_kind_is_another_device() -> None:
    assert not HostDevice(0, 1, 0, 0).is_same_as(HostDevice(0, 1, 0, 1))
    assert HostDevice(0, 1, 0, 0).is_same_as(replace(HostDevice(0, 1, 0, 0), managed=False))
