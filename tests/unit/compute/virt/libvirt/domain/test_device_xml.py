# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.device_description import (
    Controller,
    Devices,
    HostDevice,
    Nic,
    Serial,
)
from kilonova.compute.virt.libvirt.domain.device_xml import add_devices


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


def test_a_network_card_has_a_driver_element_only_for_queues_or_packed_rings() -> None:
    plain = written(nics=(Nic(mac="52:54:00:00:00:01", bridge="br0", model="virtio"),))
    assert plain.find("interface/driver") is None
    queued = written(nics=(Nic(mac="52:54:00:00:00:01", bridge="br0", model="virtio", queues=4),))
    driver = queued.find("interface/driver")
    assert driver is not None
    assert driver.attrib == {"name": "vhost", "queues": "4"}


def test_controllers_keep_their_order() -> None:
    root = written(controllers=(Controller("usb", 0, "none"), Controller("scsi", 0, "virtio-scsi")))
    assert [each.get("type") for each in root.findall("controller")] == ["usb", "scsi"]
