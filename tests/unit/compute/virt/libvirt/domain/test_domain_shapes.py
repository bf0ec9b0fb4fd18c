# SPDX-License-Identifier: Apache-2.0
"""Guests that are alike are checked against libvirt's schema once, any others each."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole, Domain
from kilonova.compute.virt.libvirt.domain.device_description import BridgeSource, Nic
from kilonova.compute.virt.libvirt.domain.domain_shapes import CheckedShapes, shape_of
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.domain.marks import GuestMark, Origin
from kilonova.config.libvirt import LibvirtSettings
from kilonova.identifiers import new_uuid
from kilonova.model.instance import GuestSpec
from support.guest_descriptions import HOST, guest_of


def domain_of(guest: GuestSpec) -> Domain:
    folder = Path("/var/lib/instances") / guest.uuid
    disks = (DiskFile(DiskRole.ROOT, folder / "disk", "qcow2"),)
    mark = GuestMark.of(guest, Origin.SPAWNED).xml()
    return describe(guest, HOST, disks, LibvirtSettings(), console_log=folder / "console.log", mark=mark)


def xml_of(guest: GuestSpec) -> str:
    return domain_xml(domain_of(guest))


def with_nic(guest: GuestSpec, nic: Nic) -> str:
    domain = domain_of(guest)
    return domain_xml(replace(domain, devices=replace(domain.devices, nics=(nic,))))


def test_guests_that_are_alike_have_one_shape() -> None:
    first = guest_of()
    other = replace(first, uuid=new_uuid(), name="instance-00ff", hostname='db "7" </metadata> <&>', memory_mib=4096)
    assert xml_of(first) != xml_of(other)
    assert shape_of(xml_of(first)) == shape_of(xml_of(other))
    nics = (
        Nic(mac="fa:16:3e:00:00:01", source=BridgeSource("br-int", "0aa"), target="tap1", alias="ua-0aa"),
        Nic(mac="52:54:00:aa:bb:cc", source=BridgeSource("br7", "f00"), target="tapf", alias="ua-f00"),
    )
    assert shape_of(with_nic(first, nics[0])) == shape_of(with_nic(other, nics[1]))


@pytest.mark.parametrize(
    ("properties", "specs"),
    [
        ({"hw_video_model": "vga"}, {}),
        ({"hw_disk_bus": "scsi"}, {}),
        ({"hw_qemu_guest_agent": "yes"}, {}),
        ({"hw_machine_type": "q35"}, {}),
        ({}, {"hw:watchdog_action": "reset"}),
        ({}, {"hw_rng:allowed": "false"}),
        ({}, {"hw:sound_model": "es1370"}),
    ],
)
def test_another_device_is_another_shape(properties: dict[str, str], specs: dict[str, str]) -> None:
    assert shape_of(xml_of(guest_of())) != shape_of(xml_of(guest_of(specs, properties)))


def test_words_with_digits_are_words() -> None:
    sounds = (xml_of(guest_of({"hw:sound_model": model})) for model in ("sb16", "es1370", "ich6", "ich9"))
    assert len({shape_of(xml) for xml in sounds}) == 4


def test_another_libvirtd_checks_again() -> None:
    checked, xml = CheckedShapes(), xml_of(guest_of())
    assert not checked.has(xml)
    checked.add(xml)
    assert checked.has(xml_of(guest_of(uuid=new_uuid())))
    checked.forget()
    assert not checked.has(xml)
