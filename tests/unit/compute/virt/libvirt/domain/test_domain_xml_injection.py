# SPDX-License-Identifier: Apache-2.0
"""Whatever users write into flavors, images and names: it stays a value, and never becomes a path."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilonova.compute.virt.libvirt.domain.description import DiskFile, Domain
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.instance import GuestSpec
from support import random_guests
from support.guest_descriptions import CONFIG, RESCUE, ROOT, described, guest_of

_OURS = {
    *("/usr/bin/qemu-system-x86_64", "/dev/urandom", "/ovmf/OVMF_CODE.fd", "/instances/u/console.log"),
    *(f"/instances/u/disk{suffix}" for suffix in ("", ".eph0", ".swap", ".config", ".rescue")),
}
_WITH_TEXT_OF_USERS = {"title"}


def paths(root: ET.Element) -> Iterator[str]:
    for element in root.iter():
        for value in (*element.attrib.values(), (element.text or "").strip()):
            if "/" in value and element.tag not in _WITH_TEXT_OF_USERS:
                yield value


def outcome(guest: GuestSpec, *disks: DiskFile, **more: Any) -> Domain | str:
    """Return the description of a guest, or why there is none."""
    try:
        return described(guest, *disks, **more)
    except UnsupportedGuest as refused:
        return refused.message


def checked(domain: Domain) -> ET.Element:
    root = ET.fromstring(domain_xml(domain))
    assert set(paths(root)) <= _OURS
    return root


@settings(max_examples=40)
@given(random_guests.guests, random_guests.disks, random_guests.rescues, random_guests.settings)
def test_whatever_can_be_had_is_described_and_all_else_refused(
    guest: GuestSpec, disks: tuple[DiskFile, ...], rescue: dict[str, str], options: LibvirtSettings
) -> None:
    domain = outcome(guest, *disks, settings=options, rescue=rescue)
    if isinstance(domain, str):
        assert domain.isprintable()
        return
    targets = [disk.target for disk in domain.devices.disks]
    assert len(set(targets)) == len(targets)
    assert [disk.boot_order for disk in domain.devices.disks].count(1) == 1
    checked(domain)


@settings(max_examples=40)
@given(random_guests.invalid, random_guests.settings)
def test_nonsense_is_refused_or_stays_a_value(guest: GuestSpec, options: LibvirtSettings) -> None:
    domain = outcome(guest, ROOT, CONFIG, RESCUE, settings=options, rescue=guest.image_properties)
    if isinstance(domain, str):
        assert domain.isprintable()
        assert len(domain) < 400
        return
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 or letter in "\ufffe\uffff" for letter in guest.hostname):
        with pytest.raises(UnsupportedGuest):
            domain_xml(domain)
        return
    root = checked(domain)
    assert (root.findtext("title") or "") == guest.hostname
    plain = ET.fromstring(domain_xml(described(guest_of(), ROOT, CONFIG)))
    assert {child.tag for child in root} <= {child.tag for child in plain} | {"cputune", "memoryBacking", "title"}


@settings(max_examples=40)
@given(st.text(max_size=12))
def test_a_guests_name_is_safe_in_paths(name: str) -> None:
    assume(not name.isascii() or not name.replace("-", "").isalnum())
    for guest in (replace(guest_of(), name=f"../{name}"), replace(guest_of(), uuid=f"x{name}")):
        with pytest.raises(UnsupportedGuest):
            described(guest)
