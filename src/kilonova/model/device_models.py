# SPDX-License-Identifier: Apache-2.0
"""Device models requested by image properties, and the standard traits of hypervisors that support the models.

Drivers report the traits of their hosts, and the scheduler requires the traits that an image needs. A driver that
refuses a guest names the unsupported model. The name of a trait consists of a prefix for the property and of the value.
A value has no trait if os-traits does not define that name.

Source: spec TRAITS §1 to §3; os-traits.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from os_traits import get_traits

from kilonova.model.image_properties import canonical_architecture, read_property
from kilonova.model.image_values import canonical_vif_model

STANDARD_TRAITS = frozenset(get_traits())

#: Image property of an emulated device → prefix of its traits.
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

#: Image properties that request a device model.
MODEL_PROPERTIES = (*_FAMILIES, "vmware_adaptertype")


class DeviceModel(NamedTuple):
    """A device model that an image requests. ``trait``: standard trait of the model, None if os-traits defines none."""

    property: str
    value: str
    trait: str | None


def device_models(properties: Mapping[str, Any]) -> tuple[DeviceModel, ...]:
    """Return the device models that image properties request. Properties may have their current or former names."""
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
    """Return the standard trait for a value of property ``name``, or None if os-traits defines none."""
    trait = _FAMILIES[name] + _canonical(name, value).upper().replace("-", "_")
    return trait if trait in STANDARD_TRAITS else None


def unsupported(properties: Mapping[str, Any], supported: Mapping[str, Iterable[str]]) -> DeviceModel | None:
    """Return the first device model requested by an image that is not supported, or None if all are supported.

    ``supported``: property → supported values. Properties without an entry are not checked. A bus that is supported for
    ``hw_disk_bus`` or ``hw_cdrom_bus`` is accepted for both.
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
    """Return the disk bus that the image property ``vmware_adaptertype`` implies, or None without this property."""
    adapter = read_property(properties, "vmware_adaptertype")
    if adapter is None:
        return None
    return "ide" if adapter.lower() == "ide" else "scsi"
