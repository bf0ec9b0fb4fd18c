# SPDX-License-Identifier: Apache-2.0
"""Builder of guest descriptions from flavor, image and claim. An error names the property that is not supported.

The builder has no side effects. Its parts are in ``board``, ``guest_cpus``, ``disk_devices``, ``screen`` and
``devices``.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from kilonova.compute.virt.libvirt.domain.board import (
    Board,
    choose_board,
    describe_clock,
    describe_features,
    describe_firmware,
    describe_system,
)
from kilonova.compute.virt.libvirt.domain.description import DiskFile, Domain
from kilonova.compute.virt.libvirt.domain.device_description import Devices, HostDevice, Iommu, Nic, PciSource
from kilonova.compute.virt.libvirt.domain.devices import (
    describe_balloon,
    describe_channels,
    describe_host_devices,
    describe_iommu,
    describe_rng,
    describe_serials,
    describe_sound,
    describe_tpm,
    describe_watchdog,
    pcie_ports,
)
from kilonova.compute.virt.libvirt.domain.disk_devices import describe_disks, scsi_controllers
from kilonova.compute.virt.libvirt.domain.guest_cpus import (
    describe_cpu,
    describe_tuning,
    memory_is_locked,
    realtime_vcpus,
)
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, one_of, shown
from kilonova.compute.virt.libvirt.domain.network_cards import card_style, describe_vifs
from kilonova.compute.virt.libvirt.domain.screen import (
    describe_graphics,
    describe_inputs,
    describe_video,
    usb_controller,
)
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_values import canonical_vif_model
from kilonova.model.instance import GuestSpec

#: Maximum number of vCPUs whose interrupts are delivered without a virtual IOMMU (xAPIC).
_MOST_VCPUS = 255
#: Guest names that are safe in the file paths that libvirt derives from them.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Extra specs and properties that this driver does not support: they must not be set.
_NEVER = {
    "accel:device_profile": "Accelerators",
    "hw:pmem": "Persistent memory",
    "kernel_id": "Booting a separate kernel",
    "ramdisk_id": "Booting a separate RAM disk",
}
#: Flags that this driver does not support: they must not be on.
_NEVER_ON = {
    "mem_encryption": "Encrypted memory",
    "ephemeral_encryption": "Encryption of disks",
}


def describe(
    guest: GuestSpec,
    host: HostCapabilities,
    disks: Sequence[DiskFile],
    settings: LibvirtSettings,
    *,
    console_log: Path,
    consoles: ConsoleSettings | None = None,
    mark: str = "",
    rescue: Mapping[str, str] | None = None,
    serial_tcp_ports: tuple[int, ...] = (),
    shared_cpus: frozenset[int] = frozenset(),
) -> Domain:
    """Return the description of a guest. Raises: UnsupportedGuest naming the property.

    ``mark``: XML of Kilonova's metadata.
    ``rescue``: properties of the rescue image, whose disk is among ``disks``.
    ``serial_tcp_ports``: free TCP ports for serial consoles; empty if serial consoles are disabled.
    ``shared_cpus``: host CPUs for unpinned vCPUs; empty for all host CPUs.
    """
    consoles = ConsoleSettings() if consoles is None else consoles
    options = GuestOptions(guest)
    _require_possible(guest, options, host)
    board = choose_board(options, host, settings)
    disk_devices = describe_disks(disks, options, board, settings, rescue)
    graphics = describe_graphics(consoles)
    sound = describe_sound(options, host)
    inputs = describe_inputs(options, board, settings, graphics)
    iommu = describe_iommu(options, board, host.virt_type)
    interfaces = describe_vifs(guest.vifs, card_style(guest), settings)
    _require_room(guest, board, iommu)
    return Domain(
        uuid=guest.uuid,
        name=guest.name,
        title=guest.hostname,
        mark=mark,
        virt_type=host.virt_type,
        emulator=host.emulator,
        architecture=host.architecture,
        machine=board.name,
        memory_mib=guest.memory_mib,
        vcpus=guest.vcpus,
        cpu=describe_cpu(guest, options, host, settings),
        tuning=describe_tuning(guest, options, host, settings, shared_cpus),
        locked_memory=memory_is_locked(guest, options),
        merged_memory=not realtime_vcpus(guest, options),
        firmware=describe_firmware(options, board),
        features=describe_features(options, board, host.virt_type, settings, iommu),
        clock=describe_clock(options, board, host.virt_type),
        system=describe_system(guest, settings) if board.is_x86 else {},
        devices=Devices(
            disks=disk_devices,
            controllers=(
                usb_controller(options, disk_devices, inputs, sound),
                *scsi_controllers(disk_devices, options),
                *pcie_ports(board, settings),
            ),
            nics=tuple(each for each in interfaces if isinstance(each, Nic)),
            serials=describe_serials(options, consoles, console_log, serial_tcp_ports),
            channels=describe_channels(options),
            inputs=inputs,
            graphics=graphics,
            video=describe_video(options, board, graphics),
            sound=sound,
            rng=describe_rng(options, settings),
            watchdog=describe_watchdog(options),
            tpm=describe_tpm(options, settings),
            iommu=iommu,
            host_devices=_host_devices(guest, interfaces),
            balloon=describe_balloon(settings),
        ),
    )


def _host_devices(guest: GuestSpec, interfaces: Sequence[Nic | HostDevice]) -> tuple[HostDevice, ...]:
    """Return the PCI devices of the claim and of the interfaces, each once: a device may be in both."""
    of_nics = [
        each.source.device for each in interfaces if isinstance(each, Nic) and isinstance(each.source, PciSource)
    ]
    whole = [each for each in interfaces if isinstance(each, HostDevice)]
    reserved = describe_host_devices(guest.reserved.devices)
    others = [each for each in reserved if not any(each.is_same_as(used) for used in (*of_nics, *whole))]
    return (*others, *whole)


def _require_room(guest: GuestSpec, board: Board, iommu: Iommu | None) -> None:
    """Raise UnsupportedGuest if the guest has more vCPUs than the board supports, or than can receive interrupts."""
    if board.facts is not None and 0 < board.facts.max_vcpus < guest.vcpus:
        raise UnsupportedGuest(f"{guest.vcpus} vCPUs exceed the maximum of {board.name} machines on this host.")
    extended = iommu is not None and iommu.options.get("eim") == "on"
    if board.is_x86 and guest.vcpus > _MOST_VCPUS and not extended:
        raise UnsupportedGuest(f"{guest.vcpus} vCPUs need hw:viommu_model=intel, and KVM.")


def _require_possible(guest: GuestSpec, options: GuestOptions, host: HostCapabilities) -> None:
    """Raise UnsupportedGuest for an invalid guest name or a request that this driver never supports."""
    if _NAME.fullmatch(guest.name) is None or not _is_uuid(guest.uuid):
        raise UnsupportedGuest(f"The guest {shown(guest.name)} ({shown(guest.uuid)}) has an invalid name or uuid.")
    for name, what in _NEVER.items():
        value = options.spec(name) if ":" in name else options.property(name)
        if value is not None:
            raise UnsupportedGuest(f"{what} ({name}={shown(value)}) is not supported by this host.")
    for name, what in _NEVER_ON.items():
        if options.agreed_flag(name):
            raise UnsupportedGuest(f"{what} (hw:{name}) is not supported by this host.")
    card = options.property("hw_vif_model")
    if card is not None and host.nic_models:
        one_of("hw_vif_model", canonical_vif_model(card), host.nic_models)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
