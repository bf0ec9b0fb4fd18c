# SPDX-License-Identifier: Apache-2.0
"""Devices in the XML of a domain: found by alias, and placed on the PCI bus as in the other configuration."""

from xml.etree import ElementTree as ET

import pytest

from kilonova.compute.virt.libvirt.domain.attached_devices import find_device, placed_alike

NEW = "<interface type='bridge'><alias name='ua-1'/></interface>"


def domain(*devices: str, buses: int = 1) -> str:
    controllers = "".join(f"<controller type='pci' index='{index}'/>" for index in range(buses))
    return f"<domain><devices>{controllers}{''.join(devices)}</devices></domain>"


def device(slot: str, *, kind: str = "interface", bus: str = "0x00", alias: str = "ua-1") -> str:
    place = f"<address type='pci' domain='0x0000' bus='{bus}' slot='{slot}' function='0x0'/>"
    return f"<{kind}><alias name='{alias}'/>{place}</{kind}>"


def slot_of(other: str, here: str) -> str | None:
    place = ET.fromstring(placed_alike(NEW, "ua-1", other, here)).find("address")
    return None if place is None else place.get("slot")


@pytest.mark.parametrize("kind", ["interface", "hostdev"])
def test_a_device_is_found_by_its_alias(kind: str) -> None:
    found = find_device(domain(device("0x03", alias="net0"), device("0x04", kind=kind)), "ua-1")
    assert found is not None
    assert ET.fromstring(found).tag == kind
    assert "0x04" in found


def test_a_device_that_is_absent() -> None:
    others = domain(device("0x03", alias="net0"), "<interface/>", device("0x04", kind="disk"))
    assert find_device(others, "ua-1") is None


def test_the_place_is_that_of_the_other_configuration() -> None:
    assert slot_of(domain(device("0x05")), domain(device("0x03", alias="net0"))) == "0x05"


@pytest.mark.parametrize(
    ("other", "here"),
    [
        (domain(), domain()),
        (domain("<interface><alias name='ua-1'/></interface>"), domain()),
        (domain(device("0x05")), domain(device("0x05", kind="memballoon", alias="balloon0"))),
        (domain(device("0x00", bus="0x02"), buses=3), domain(buses=2)),
    ],
)
def test_libvirt_chooses_the_place_otherwise(other: str, here: str) -> None:
    assert slot_of(other, here) is None


def test_a_place_behind_a_bridge() -> None:
    assert slot_of(domain(device("0x00", bus="0x02"), buses=3), domain(buses=3)) == "0x00"
