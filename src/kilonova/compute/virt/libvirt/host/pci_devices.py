# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a host that ``[pci] device_spec`` offers to guests."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import re2  # type: ignore[import-untyped]

from kilonova.errors import ConfigurationError
from kilonova.model.pci import PF, STANDARD, VF, PciPool

_OPTION = "[pci] device_spec"
_ID = re.compile(r"(0x)?[0-9a-f]{4}|\*", re.IGNORECASE)
_FIELD = re.compile(r"[0-9a-f]{1,4}|\*|", re.IGNORECASE)
#: The parts of a PCI address, and their numbers of digits.
_PARTS = {"domain": 4, "bus": 2, "slot": 2, "function": 1}
_MATCHING = frozenset({"vendor_id", "product_id", "address"})
_NO_TAGS = _MATCHING | {"resource_class", "traits"}
_SWITCHES = frozenset({"live_migratable", "managed", "one_time_use", "remote_managed", "trusted"})
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_BRIDGES = "0x06"


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A function of a PCI device. ``physical``: for a virtual function, the address of its physical function."""

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = STANDARD
    numa_node: int | None = None
    physical: str | None = None


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
    if physical is not None:
        dev_type = VF
    elif pci.find("capability[@type='virt_functions']") is not None:
        dev_type = PF
    return PciDevice(
        address=_address(*(int(pci.findtext(part, "0")) for part in _PARTS)),
        vendor_id="" if vendor is None else vendor.get("id", "")[2:].lower(),
        product_id="" if product is None else product.get("id", "")[2:].lower(),
        dev_type=dev_type,
        numa_node=None if node < 0 else node,
        physical=None if physical is None else _address(*(int(physical.get(part, "0"), 16) for part in _PARTS)),
    )


def pools_of(devices: Iterable[PciDevice], specs: Sequence[DeviceSpec]) -> tuple[PciPool, ...]:
    """Return the devices for guests, with equal devices grouped in pools.

    The first entry of ``specs`` that matches a device applies to this device.
    """
    found: dict[tuple[Any, ...], list[str]] = {}
    for device in devices:
        spec = next((spec for spec in specs if spec.matches(device)), None)
        if spec is not None:
            alike = device.vendor_id, device.product_id, device.numa_node, device.dev_type, spec.tags
            found.setdefault(alike, []).append(device.address)
    return tuple(
        PciPool(number, vendor, product, len(addresses), node, dev_type, tags, addresses=tuple(sorted(addresses)))
        for number, ((vendor, product, node, dev_type, tags), addresses) in enumerate(sorted(found.items(), key=repr))
    )


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
    if tags.get("remote_managed") == "true":
        raise _wrong(text, "remote_managed devices are not supported")
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
