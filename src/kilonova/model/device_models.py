# SPDX-License-Identifier: Apache-2.0
"""Device models that images ask for, and the standard traits that say a hypervisor has them.

One table for both sides: the scheduler asks for these traits, drivers report them, and a driver that is given a guest
it cannot make says so by the same names. A trait is the family's prefix and the value; os-traits decides which exist.

Source: spec TRAITS §1 to §3; os-traits.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from os_traits import get_traits

from kilonova.model.image_properties import canonical_architecture, read_property
from kilonova.model.image_values import canonical_vif_model

STANDARD_TRAITS = frozenset(get_traits())

#: Image property → the beginning of its traits, for what a hypervisor emulates.
DEVICE_FAMILIES: Mapping[str, str] = {
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL_",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL_",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS_",
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS_",
    "hw_viommu_model": "COMPUTE_VIOMMU_MODEL_",
}
_ARCHITECTURES: Mapping[str, str] = {
    "hw_architecture": "HW_ARCH_",
    "hw_emulation_architecture": "COMPUTE_ARCH_",
}
_FAMILIES: Mapping[str, str] = {**DEVICE_FAMILIES, **_ARCHITECTURES}

#: The image properties that say something about device models.
MODEL_PROPERTIES = (*_FAMILIES, "vmware_adaptertype")


class DeviceModel(NamedTuple):
    """One thing an image asks for. ``trait``: the standard trait for it, None where there is none."""

    property: str
    value: str
    trait: str | None


def device_models(properties: Mapping[str, Any]) -> tuple[DeviceModel, ...]:
    """Return what image properties ask for, under present and former names. Absent properties ask for nothing."""
    found = []
    for name in _FAMILIES:
        value = read_property(properties, name)
        if value is None and name == "hw_disk_bus":
            value = _bus_of_vmware(properties)
        if value is not None:
            canonical = _canonical(name, value)
            found.append(DeviceModel(name, canonical, trait_of(name, canonical)))
    return tuple(found)


def trait_of(name: str, value: str) -> str | None:
    """Return the standard trait of a property's value, None when there is none."""
    trait = _FAMILIES[name] + _canonical(name, value).upper().replace("-", "_")
    return trait if trait in STANDARD_TRAITS else None


def unsupported(properties: Mapping[str, Any], supported: Mapping[str, Iterable[str]]) -> DeviceModel | None:
    """Return the first device model an image asks for that is not among ``supported``: property → values.

    A family that ``supported`` does not mention is not judged. Disks and CD-ROMs share their buses.
    """
    have: dict[str, set[str]] = {}
    for name, values in supported.items():
        have.setdefault(DEVICE_FAMILIES[name], set()).update(_canonical(name, value) for value in values)
    for model in device_models(properties):
        values_of_family = have.get(_FAMILIES[model.property])
        if values_of_family is not None and model.value not in values_of_family:
            return model
    return None


def _canonical(name: str, value: str) -> str:
    if name in _ARCHITECTURES:
        return canonical_architecture(value)
    return canonical_vif_model(value) if name == "hw_vif_model" else value.lower()


def _bus_of_vmware(properties: Mapping[str, Any]) -> str | None:
    """Return the disk bus that the adapter type of an image made for VMware stands for."""
    adapter = read_property(properties, "vmware_adaptertype")
    if adapter is None:
        return None
    return "ide" if adapter.lower() == "ide" else "scsi"
