# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a host that ``[pci] device_spec`` offers to guests."""

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import re2  # type: ignore[import-untyped]

from kilonova.errors import ConfigurationError
from kilonova.model.pci import PF, STANDARD, VF, CardFacts, PciPool
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_OPTION = "[pci] device_spec"
_ID = re.compile(r"(0x)?[0-9a-f]{4}|\*", re.IGNORECASE)
_FIELD = re.compile(r"[0-9a-f]{1,4}|\*|", re.IGNORECASE)
#: The parts of a PCI address, and their numbers of digits.
_PARTS = {"domain": 4, "bus": 2, "slot": 2, "function": 1}
_MATCHING = frozenset({"vendor_id", "product_id", "address"})
_NO_TAGS = _MATCHING | {"resource_class", "traits"}
_SWITCHES = frozenset({"live_migratable", "managed", "one_time_use", "remote_managed", "trusted"})
_REMOTE = "remote_managed"
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_BRIDGES = "0x06"
NO_MACS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A function of a PCI device.

    ``physical``: for a virtual function, the address of its physical function. ``virtual``: for a physical function,
    the addresses of its virtual functions by their numbers. ``serial``: serial number in the vital product data.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = STANDARD
    numa_node: int | None = None
    physical: str | None = None
    virtual: tuple[str, ...] = ()
    serial: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """An entry of ``[pci] device_spec``. ``address``: patterns for the parts of an address; empty for any address.

    ``is_exact``: whether ``address`` matches only one address. If that one address belongs to a physical function, the
    entry also covers the virtual functions of the physical function.
    """

    vendor_id: str = "*"
    product_id: str = "*"
    address: tuple[Any, ...] = ()
    is_exact: bool = False
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_remote_managed(self) -> bool:
        """Whether the devices are virtual functions of cards that another computer manages."""
        return (_REMOTE, "true") in self.tags

    def matches(self, device: PciDevice) -> bool:
        if self.vendor_id not in {"*", device.vendor_id} or self.product_id not in {"*", device.product_id}:
            return False
        if not self.address or self._is_at(device.address):
            return True
        return self.is_exact and device.physical is not None and self._is_at(device.physical)

    def _is_at(self, address: str) -> bool:
        parts = address.replace(".", ":").split(":")
        return all(pattern.fullmatch(part) for pattern, part in zip(self.address, parts, strict=True))


def read_device_specs(texts: Iterable[str]) -> tuple[DeviceSpec, ...]:
    """Parse ``[pci] device_spec``. Raises: ConfigurationError naming the value."""
    specs: list[DeviceSpec] = []
    for text in texts:
        try:
            given = json.loads(text)
        except ValueError:
            raise ConfigurationError(f"{_OPTION} must be JSON, not {text!r}.") from None
        for each in given if isinstance(given, list) else [given]:
            if not isinstance(each, dict):
                raise ConfigurationError(f"{_OPTION} must be an object or a list of objects, not {text!r}.")
            specs.append(_spec(text, {str(key): value for key, value in each.items()}))
    return tuple(specs)


def read_device(text: str) -> PciDevice | None:
    """Parse libvirt's XML of a host device; return None for a device that guests cannot have, such as a bridge."""
    pci = ET.fromstring(text).find("capability[@type='pci']")  # noqa: S314 - the XML is from libvirtd
    if pci is None or pci.findtext("class", "").startswith(_BRIDGES):
        return None
    vendor, product, numa = pci.find("vendor"), pci.find("product"), pci.find("numa")
    node = -1 if numa is None else int(numa.get("node", -1))
    physical = pci.find("capability[@type='phys_function']/address")
    dev_type = STANDARD
    functions = pci.find("capability[@type='virt_functions']")
    if physical is not None:
        dev_type = VF
    elif functions is not None:
        dev_type = PF
    serial = pci.findtext("capability[@type='vpd']/fields/serial_number", "").strip()
    return PciDevice(
        address=_address(*(int(pci.findtext(part, "0")) for part in _PARTS)),
        vendor_id="" if vendor is None else vendor.get("id", "")[2:].lower(),
        product_id="" if product is None else product.get("id", "")[2:].lower(),
        dev_type=dev_type,
        numa_node=None if node < 0 else node,
        physical=None if physical is None else _address_in(physical),
        virtual=() if functions is None else tuple(map(_address_in, functions.iterfind("address"))),
        serial=serial or None,
    )


def read_mac(text: str) -> tuple[str, str] | None:
    """Parse libvirt's XML of a network device: return the name of its PCI device, and its MAC address; None without."""
    device = ET.fromstring(text)  # noqa: S314 - the XML is from libvirtd
    mac = device.findtext("capability[@type='net']/address", "").strip().lower()
    parent = device.findtext("parent", "").strip()
    return (parent, mac) if parent and mac else None


def pools_of(
    devices: Iterable[PciDevice], specs: Sequence[DeviceSpec], macs: Mapping[str, str] = NO_MACS
) -> tuple[PciPool, ...]:
    """Return the devices for guests, with equal devices grouped in pools.

    The first entry of ``specs`` that matches a device applies to this device. ``macs``: address of a PCI device → MAC
    address of its network device. Remote-managed devices must be virtual functions of a card with a serial number, by
    which the network service finds the computer that manages the card; others are left out.
    """
    devices = tuple(devices)
    facts = _card_facts(devices, macs)
    found: dict[tuple[Any, ...], list[str]] = {}
    for device in devices:
        spec = next((spec for spec in specs if spec.matches(device)), None)
        if spec is not None and spec.is_remote_managed and not _is_manageable(device, facts):
            continue
        if spec is not None:
            alike = device.vendor_id, device.product_id, device.numa_node, device.dev_type, spec.tags
            found.setdefault(alike, []).append(device.address)
    return tuple(
        PciPool(
            number,
            vendor,
            product,
            len(addresses),
            node,
            dev_type,
            tags,
            addresses=tuple(sorted(addresses)),
            cards=tuple((address, facts[address]) for address in sorted(addresses) if address in facts),
        )
        for number, ((vendor, product, node, dev_type, tags), addresses) in enumerate(sorted(found.items(), key=repr))
    )


def _card_facts(devices: Iterable[PciDevice], macs: Mapping[str, str]) -> dict[str, CardFacts]:
    """Return what is known about the functions of network cards: physical functions, and their virtual functions."""
    at = {device.address: device for device in devices}
    found: dict[str, CardFacts] = {}
    for device in at.values():
        card = at.get(device.physical or "")
        if device.dev_type == PF and device.address in macs:
            found[device.address] = CardFacts(card_serial_number=device.serial, mac_address=macs[device.address])
        elif device.physical is not None:
            numbers = () if card is None else card.virtual
            facts = CardFacts(
                card_serial_number=device.serial or (None if card is None else card.serial),
                pf_mac_address=macs.get(device.physical),
                vf_num=numbers.index(device.address) if device.address in numbers else None,
            )
            if facts != CardFacts():
                found[device.address] = facts
    return found


def _is_manageable(device: PciDevice, facts: Mapping[str, CardFacts]) -> bool:
    """Tell whether a remote-managed device can be used. A device that cannot be used is logged."""
    card = facts.get(device.address)
    if device.dev_type == VF and card is not None and card.card_serial_number is not None:
        return True
    why = "is no virtual function" if device.dev_type != VF else "belongs to a card without a serial number"
    LOG.warning("Device %s is not offered to guests as a remote-managed device: it %s", device.address, why)
    return False


def _address_in(element: ET.Element) -> str:
    return _address(*(int(element.get(part, "0"), 16) for part in _PARTS))


def _address(domain: int, bus: int, slot: int, function: int) -> str:
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _spec(text: str, given: Mapping[str, Any]) -> DeviceSpec:
    if "devname" in given:
        raise _wrong(text, "devname is not supported; use the device's address")
    ids = {name: str(given.get(name, "*")).lower() for name in ("vendor_id", "product_id")}
    for name, value in ids.items():
        if _ID.fullmatch(value) is None:
            raise _wrong(text, f"{name} must be four hexadecimal digits or *")
    tags = {}
    for name, value in given.items():
        if name in _SWITCHES:
            tags[name] = "true" if str(value).strip().lower() in _TRUE else "false"
        elif name not in _NO_TAGS:
            tags[name] = str(value)
    address, is_exact = _address_of(text, given.get("address"))
    short = {name: value.removeprefix("0x") for name, value in ids.items()}
    return DeviceSpec(short["vendor_id"], short["product_id"], address, is_exact, tuple(sorted(tags.items())))


def _address_of(text: str, given: Any) -> tuple[tuple[Any, ...], bool]:
    """Return patterns for the parts of an address, and whether they match only one address.

    Raises: ConfigurationError.
    """
    if given is None:
        return (), False
    if isinstance(given, dict):
        if not given.keys() <= _PARTS.keys():
            raise _wrong(text, f"the keys of an address are {', '.join(_PARTS)}")
        try:
            return tuple(re2.compile(f"(?i){given.get(part, '.*')}") for part in _PARTS), False
        except re2.error as error:
            raise _wrong(text, f"the address contains an invalid regular expression: {error}") from None
    first, _, function = str(given).partition(".")
    fields = [*first.split(":"), function]
    fields = ["*"] * (len(_PARTS) - len(fields)) + fields
    if len(fields) > len(_PARTS) or not all(_FIELD.fullmatch(field) for field in fields):
        raise _wrong(text, "the address must have the form 0000:0a:00.1 or *:0a:00.*")
    patterns = [
        ".*" if field in {"", "*"} else f"{int(field, 16):0{width}x}"
        for field, width in zip(fields, _PARTS.values(), strict=True)
    ]
    return tuple(re2.compile(pattern) for pattern in patterns), ".*" not in patterns


def _wrong(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{_OPTION} {text!r}: {why}.")
