# SPDX-License-Identifier: Apache-2.0
"""Devices in the XML of a domain that libvirt has returned: found by their alias, and given a PCI address.

A running domain has two configurations: the present one, and the one for its next start. The guest recognises a device
by its PCI address, so a device should have the same PCI address in both configurations.
"""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

_KINDS = ("interface", "hostdev")


def find_device(domain: str, alias: str) -> str | None:
    """Return the XML of the network interface or PCI device with an alias, or None if the domain has no such device."""
    found = _find(ET.fromstring(domain), alias)  # noqa: S314 - the XML is from libvirt
    return None if found is None else ET.tostring(found, encoding="unicode")


def placed_alike(device: str, alias: str, other: str, domain: str) -> str:
    """Return the XML of a device to add to ``domain``, with the PCI address that the device has in ``other``.

    ``other``: XML of the other configuration. If ``other`` does not have the device, or if the address is in use or its
    bus is missing in ``domain``, the result has no address, so that libvirt chooses one.
    """
    there, here = ET.fromstring(other), ET.fromstring(domain)  # noqa: S314 - the XML is from libvirt
    model = _find(there, alias)
    place = None if model is None else model.find("address[@type='pci']")
    if place is None or not _has_bus(here, place) or any(place.attrib == each.attrib for each in _places(here)):
        return device
    element = ET.fromstring(device)  # noqa: S314 - the XML is from this process
    element.append(place)
    return ET.tostring(element, encoding="unicode")


def _find(domain: ET.Element, alias: str) -> ET.Element | None:
    for kind in _KINDS:
        for device in domain.iterfind(f"devices/{kind}"):
            name = device.find("alias")
            if name is not None and name.get("name") == alias:
                return device
    return None


def _places(domain: ET.Element) -> Iterator[ET.Element]:
    return domain.iterfind("devices/*/address[@type='pci']")


def _has_bus(domain: ET.Element, place: ET.Element) -> bool:
    number = str(int(place.get("bus", "0"), 0))
    return domain.find(f"devices/controller[@type='pci'][@index='{number}']") is not None
