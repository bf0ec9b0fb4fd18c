# SPDX-License-Identifier: Apache-2.0
"""Check on the host that it supports all features of a guest, before an image is downloaded or a disk is made.

The scheduler checks traits only if the operator enables that, and libvirt and QEMU detect some missing features only
when a guest starts. Therefore the driver checks the features itself.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.compute.virt.libvirt.domain.disk_devices import canonical_scsi_model
from kilonova.compute.virt.libvirt.domain.guest_options import shown
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.models import supported_models
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_properties import canonical_architecture, canonical_value, read_property
from kilonova.model.image_values import canonical_vif_model
from kilonova.model.instance import GuestSpec

#: Image properties that flavors can set, too, as extra specs: ``hw_sound_model`` as ``hw:sound_model``.
_OF_FLAVORS = frozenset(
    {
        *("hw_sound_model", "hw_usb_model", "hw_viommu_model", "hw_watchdog_action", "hw_tpm_model", "hw_tpm_version"),
        *("hw_maxphysaddr_mode", "os_secure_boot"),
    }
)
_FLAGS = frozenset({"hw_firmware_stateless"})
_YES = frozenset({"1", "t", "true", "on", "y", "yes"})
_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "hw_emulation_architecture": canonical_architecture,
    "hw_scsi_model": canonical_scsi_model,
    "hw_vif_model": canonical_vif_model,
}
#: A minimal disk and a minimal guest. If a host cannot create this guest, it can create no guest at all.
_ROOT = DiskFile(DiskRole.ROOT, Path("disk"), "qcow2")
_PLAIN = GuestSpec(
    uuid="00000000-0000-0000-0000-000000000000", name="plain", hostname="plain", vcpus=1, memory_mib=64, root_gib=1
)


def why_not(
    guest: GuestSpec, host: HostCapabilities, settings: LibvirtSettings, shared_cpus: frozenset[int] = frozenset()
) -> str | None:
    """Return the reason why the host cannot create a guest, or None if it can.

    The text names the property, its value and the supported values. Users may read the text, so it does not name the
    host. ``shared_cpus``: as in :func:`describe`.
    """
    try:
        describe(
            guest,
            host,
            (_ROOT, *_requested_disks(guest)),
            settings,
            console_log=Path("console.log"),
            shared_cpus=shared_cpus,
        )
    except UnsupportedGuest as refusal:
        return refusal.message
    models = supported_models(host, settings)
    for said, name, value in _asked(guest, models):
        if value not in models[name]:
            have = ", ".join(sorted(models[name])) or "none"
            return f"{said} is not supported by this host (supported: {have})."
    return None


def _requested_disks(guest: GuestSpec) -> Iterator[DiskFile]:
    """Yield a disk for each bus that the user requested."""
    buses = {*(disk.bus for disk in guest.requested_ephemeral), guest.swap_bus}
    return (DiskFile(DiskRole.EPHEMERAL, Path("disk.eph0"), "qcow2", bus=bus) for bus in sorted(filter(None, buses)))


def why_unusable(host: HostCapabilities, settings: LibvirtSettings) -> str | None:
    """Return an error text if the operator's settings do not work on this host, or None if they do.

    The function checks the settings that every guest needs, and the setting for TPMs.
    """
    reason = why_not(_PLAIN, host, settings)
    if reason is not None:
        return f"No guest can be made on this host: {reason}"
    if settings.swtpm_enabled and not supported_models(host, settings)["hw_tpm_version"]:
        return "[libvirt] swtpm_enabled is set, and libvirt finds no swtpm on this host."
    return None


def _asked(guest: GuestSpec, models: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield each requested feature: its text in the request, the image property, and the property's canonical value."""
    for name in models:
        in_image = read_property(guest.image_properties, name)
        if in_image is not None:
            yield f"{name}={shown(in_image)}", name, _canonical(name, in_image)
        key = name.replace("_", ":", 1)
        in_flavor = guest.extra_specs.get(key) if name in _OF_FLAVORS else None
        if in_flavor:
            yield f"{key}={shown(in_flavor)}", name, _canonical(name, in_flavor)


def _canonical(name: str, value: str) -> str:
    if name in _FLAGS:
        return "true" if value.strip().lower() in _YES else "false"
    spelling = _SPELLINGS.get(name)
    return spelling(value) if spelling is not None else canonical_value(name, value).lower()
