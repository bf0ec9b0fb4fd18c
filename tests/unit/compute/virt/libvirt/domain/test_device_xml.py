# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.device_description import (
    BridgeSource,
    Controller,
    Devices,
    HostDevice,
    MacvtapSource,
    Nic,
    PciSource,
    Serial,
)
from kilonova.compute.virt.libvirt.domain.device_xml import add_devices, interface_xml


def written(**devices: object) -> ET.Element:
    root = ET.Element("devices")
    add_devices(root, Devices(**devices))  # type: ignore[arg-type]
    return root


def test_pci_addresses_are_hexadecimal_with_leading_zeros() -> None:
    device = HostDevice(0x1, 0xA, 0x1F, 0x7, managed=False)
    address = written(host_devices=(device,)).find("hostdev/source/address")
    assert address is not None
    assert address.attrib == {"domain": "0x0001", "bus": "0x0a", "slot": "0x1f", "function": "0x7"}


def test_serial_ports_are_numbered_and_listen_only_where_they_have_a_port() -> None:
    root = written(serials=(Serial(host="127.0.0.1", port=10000, log="/log"), Serial()))
    first, second = root.findall("serial")
    assert (first.get("type"), second.get("type")) == ("tcp", "pty")
    assert [each.get("port") for each in root.findall("serial/target")] == ["0", "1"]
    assert second.find("source") is None


MAC = "fa:16:3e:00:00:01"


def nic_xml(source: BridgeSource | MacvtapSource | PciSource, **fields: Any) -> ET.Element:
    root = written(nics=(Nic(mac=MAC, source=source, **fields),))
    assert interface_xml(Nic(mac=MAC, source=source, **fields)) == ET.tostring(root[0], "unicode")
    return root[0]


def attributes(parent: ET.Element, path: str) -> dict[str, str]:
    found = parent.find(path)
    assert found is not None
    return found.attrib


def test_a_network_card_on_a_bridge() -> None:
    plain = nic_xml(BridgeSource("br0"), target="tap1", mtu=1450, alias="ua-1")
    assert plain.get("type") == "bridge"
    assert [(each.tag, each.attrib) for each in plain] == [
        ("source", {"bridge": "br0"}),
        ("mac", {"address": MAC}),
        ("target", {"dev": "tap1"}),
        ("model", {"type": "virtio"}),
        ("mtu", {"size": "1450"}),
        ("alias", {"name": "ua-1"}),
    ]


def test_a_network_card_on_open_vswitch_names_its_port() -> None:
    card = nic_xml(BridgeSource("br-int", "p1"))
    assert attributes(card, "virtualport") == {"type": "openvswitch"}
    assert attributes(card, "virtualport/parameters") == {"interfaceid": "p1"}


def test_queues_rings_and_offloads_are_in_the_driver_element() -> None:
    driver = nic_xml(BridgeSource("br0"), queues=4, packed=True, offloads=False).find("driver")
    assert driver is not None
    assert driver.attrib == {"queues": "4", "packed": "on"}
    off = dict.fromkeys(("csum", "tso4", "tso6", "ecn", "ufo"), "off")
    assert attributes(driver, "host") == {**off, "gso": "off"}
    assert attributes(driver, "guest") == off
    assert attributes(nic_xml(BridgeSource("br0"), packed=True), "driver") == {"packed": "on"}


def test_a_macvtap_card() -> None:
    card = nic_xml(MacvtapSource("eth1", "bridge"))
    assert card.get("type") == "direct"
    assert attributes(card, "source") == {"dev": "eth1", "mode": "bridge"}


def test_a_virtual_function_has_no_model() -> None:
    card = nic_xml(PciSource(HostDevice(0, 0x81, 0, 1), vlan=7), model=None)
    assert (card.get("type"), card.get("managed"), card.find("model")) == ("hostdev", "yes", None)
    address = {"type": "pci", "domain": "0x0000", "bus": "0x81", "slot": "0x00", "function": "0x1"}
    assert attributes(card, "source/address") == address
    assert attributes(card, "vlan/tag") == {"id": "7"}
    assert nic_xml(PciSource(HostDevice(0, 0x81, 0, 1)), model=None).find("vlan") is None


def test_a_whole_sriov_card_is_found_by_its_alias() -> None:
    device = HostDevice(0, 0x81, 0, 0, alias="ua-1")
    assert attributes(ET.fromstring(interface_xml(device)), "alias") == {"name": "ua-1"}
    assert written(host_devices=(replace(device, alias=None),)).find("hostdev/alias") is None


def test_controllers_keep_their_order() -> None:
    root = written(controllers=(Controller("usb", 0, "none"), Controller("scsi", 0, "virtio-scsi")))
    assert [each.get("type") for each in root.findall("controller")] == ["usb", "scsi"]
