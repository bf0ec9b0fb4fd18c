# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a guest, and the devices of a guest on Arm."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.libvirt.domain.device_description import HostDevice
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestDevice, GuestDevices
from support.guest_descriptions import CONFIG, HOST, ROOT, described, guest_of, written


def test_reserved_pci_devices_are_the_guests() -> None:
    devices = (
        GuestDevice("0000:81:00.1", "8086", "154d", "type-VF"),
        GuestDevice("0001:0a:1f.7", "10de", "1eb8", "type-PCI", tags=(("managed", "no"),)),
    )
    found = described(guest_of(reserved=GuestDevices((), devices))).devices.host_devices
    assert found == (HostDevice(0, 0x81, 0, 1), HostDevice(1, 0x0A, 0x1F, 7, managed=False))
    with pytest.raises(UnsupportedGuest, match="not a PCI address"):
        described(guest_of(reserved=GuestDevices((), (replace(devices[0], address="../0000:81:00.1"),))))


def test_a_guest_of_arm() -> None:
    host = replace(HOST, architecture="aarch64", machines={}, virt_type="kvm")
    root = written(described(guest_of(), ROOT, CONFIG, host=host))
    assert root.find("os/type[@machine='virt'][@arch='aarch64']") is not None
    assert root.find("os[@firmware='efi']") is not None
    assert root.find("features/apic") is None
    assert root.find("sysinfo") is None
    assert [(device.get("type"), device.get("bus")) for device in root.iterfind("devices/input")] == [
        ("tablet", "usb"),
        ("keyboard", "usb"),
    ]
