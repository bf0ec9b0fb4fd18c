# SPDX-License-Identifier: Apache-2.0
"""Devices of a guest other than disks: those that flavor and image request, and those that operators switch off."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.domain.device_description import Rng, Tpm, Watchdog
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import HOST, described, guest_of


def test_devices_that_flavor_or_image_ask_for() -> None:
    specs = {
        "hw_rng:rate_bytes": "1024",
        "hw_rng:rate_period": "100",
        "hw:watchdog_action": "reset",
        "hw:tpm_version": "2.0",
        "hw:tpm_model": "tpm-crb",
        "hw:sound_model": "ich9",
        "hw_video:ram_max_mb": "64",
        "hw:serial_port_count": "3",
    }
    properties = {
        "hw_watchdog_action": "poweroff",
        "hw_qemu_guest_agent": "yes",
        "hw_video_model": "qxl",
        "hw_video_ram": "32",
        "hw_input_bus": "virtio",
    }
    devices = described(guest_of(specs, properties), settings=LibvirtSettings(swtpm_enabled=True)).devices
    assert devices.rng == Rng(Path("/dev/urandom"), 1024, 100)
    assert devices.watchdog == Watchdog("i6300esb", "poweroff")
    assert devices.tpm == Tpm("2.0", "tpm-crb")
    assert devices.sound == "ich9"
    assert devices.video is not None
    assert (devices.video.model, devices.video.vram_kib) == ("qxl", 32768)
    assert [channel.name for channel in devices.channels] == ["org.qemu.guest_agent.0"]
    assert [(device.type, device.bus) for device in devices.inputs] == [("tablet", "virtio"), ("keyboard", "virtio")]
    assert [serial.log is not None for serial in devices.serials] == [True, False, False]
    assert [(each.type, each.model) for each in devices.controllers] == [("usb", "none")]


def test_devices_can_be_switched_off() -> None:
    guest = guest_of({"hw_rng:allowed": "false", "hw:watchdog_action": "reset"}, {"hw_watchdog_action": "disabled"})
    settings = LibvirtSettings(mem_stats_period_s=0, pointer_model="ps2mouse")
    devices = described(guest, settings=settings).devices
    assert (devices.rng, devices.watchdog, devices.inputs) == (None, None, ())
    assert devices.balloon.model == "none"


def test_usb_is_there_for_whatever_needs_it() -> None:
    no_screen = ConsoleSettings(vnc_enabled=False)
    for properties in ({"hw_sound_model": "usb"}, {"hw_disk_bus": "usb"}):
        asked = {**properties, "hw_usb_model": "qemu-xhci"}
        (usb,) = described(guest_of(properties=asked), consoles=no_screen).devices.controllers
        assert (usb.type, usb.model) == ("usb", "qemu-xhci")
        with pytest.raises(UnsupportedGuest, match="hw:usb_model=none"):
            described(guest_of({"hw:usb_model": "none"}, properties), consoles=no_screen)


def test_what_a_tpm_keeps_has_no_secret_here() -> None:
    guest = guest_of({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"})
    with pytest.raises(UnsupportedGuest, match="hw:tpm_secret_security"):
        described(guest, settings=LibvirtSettings(swtpm_enabled=True))


def test_serial_consoles_of_users_are_at_the_ports_that_the_driver_found() -> None:
    guest = guest_of({"hw:serial_port_count": "2"})
    consoles = ConsoleSettings(serial_enabled=True, serial_reached_at="127.0.0.2")
    found = described(guest, consoles=consoles, serial_tcp_ports=(10000, 10001, 10002)).devices.serials
    assert [(serial.host, serial.port, serial.log is not None) for serial in found] == [
        ("127.0.0.2", 10000, True),
        ("127.0.0.2", 10001, False),
    ]
    consoles = replace(consoles, serial_listen="127.0.0.3")
    found = described(guest, consoles=consoles, serial_tcp_ports=(10000,)).devices.serials
    assert [serial.host for serial in found] == ["127.0.0.3"]


def test_an_iommu_that_interrupts_can_be_told_by_needs_kvm() -> None:
    guest = guest_of({"hw:viommu_model": "intel"}, {"hw_machine_type": "q35"})
    by_qemu, by_kvm = (described(guest, host=replace(HOST, virt_type=virt_type)) for virt_type in ("qemu", "kvm"))
    assert by_qemu.devices.iommu is not None
    assert by_kvm.devices.iommu is not None
    assert by_qemu.devices.iommu.options == {"caching_mode": "on", "iotlb": "on", "aw_bits": "48"}
    assert by_kvm.devices.iommu.options == {**by_qemu.devices.iommu.options, "intremap": "on", "eim": "on"}
    automatic = described(guest_of({"hw:viommu_model": "auto"}, {"hw_machine_type": "q35"}))
    assert automatic.devices.iommu is not None
    assert automatic.devices.iommu.model == "virtio"
