# SPDX-License-Identifier: Apache-2.0
"""The devices of a guest, except its disks and the devices of its graphical console."""

from dataclasses import replace
from pathlib import Path

from kilonova.compute.virt.libvirt.domain.board import Board
from kilonova.compute.virt.libvirt.domain.description import VirtType
from kilonova.compute.virt.libvirt.domain.device_description import (
    Balloon,
    Channel,
    Controller,
    HostDevice,
    Iommu,
    Rng,
    Serial,
    Tpm,
    Watchdog,
)
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, contradiction, one_of, shown
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.models import unusable_sound_cards
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestDevice

_MOST_SERIAL_PORTS = 4
_WATCHDOG_ACTIONS = ("disabled", "none", "pause", "poweroff", "reset")
_SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
_VIOMMU_MODELS = ("intel", "smmuv3", "virtio", "auto")
_TPM_MODELS = ("tpm-tis", "tpm-crb")
_AGENT = "org.qemu.guest_agent.0"
_ADDRESS_BITS = "48"
_NO = frozenset({"no", "false", "0", "off", "n", "f"})


def serial_ports(options: GuestOptions) -> int:
    """Return the number of a guest's serial ports. The image may request fewer ports than the flavor, but not more.

    Raises: UnsupportedGuest naming the property.
    """
    of_flavor = options.spec_number("hw:serial_port_count", 0, _MOST_SERIAL_PORTS)
    of_image = options.property_number("hw_serial_port_count", 0, _MOST_SERIAL_PORTS)
    if of_flavor and of_image and of_image > of_flavor:
        raise contradiction("hw:serial_port_count", str(of_flavor), "hw_serial_port_count", str(of_image))
    return of_image or of_flavor or 1


def describe_serials(
    options: GuestOptions, consoles: ConsoleSettings, console_log: Path, tcp_ports: tuple[int, ...]
) -> tuple[Serial, ...]:
    """Return the serial ports of a guest. The output of the first serial port is logged.

    ``tcp_ports``: the TCP ports through which console users reach the serial ports.
    """
    wanted = serial_ports(options)
    if not consoles.serial_enabled or not tcp_ports:
        return (Serial(console_log), *(Serial() for _ in range(wanted - 1)))
    return tuple(
        Serial(console_log if number == 0 else None, consoles.serial_listens_at, port)
        for number, port in enumerate(tcp_ports[:wanted])
    )


def describe_channels(options: GuestOptions) -> tuple[Channel, ...]:
    return (Channel(_AGENT),) if options.property_flag("hw_qemu_guest_agent") else ()


def describe_rng(options: GuestOptions, settings: LibvirtSettings) -> Rng | None:
    """Return the random number generator, which every guest has unless its flavor forbids it."""
    one_of("hw_rng_model", options.property("hw_rng_model"), ("virtio",))
    rate = options.spec_number("hw_rng:rate_bytes", 0, 2**31 - 1)
    period = options.spec_number("hw_rng:rate_period", 0, 2**31 - 1)
    if options.spec_flag("hw_rng:allowed") is False:
        return None
    return Rng(settings.rng_dev_path, rate or None, (period or None) if rate else None)


def describe_watchdog(options: GuestOptions) -> Watchdog | None:
    action = one_of("hw_watchdog_action", options.image_first("watchdog_action"), _WATCHDOG_ACTIONS)
    return None if action in {None, "disabled"} else Watchdog("i6300esb", str(action))


def describe_sound(options: GuestOptions, host: HostCapabilities) -> str | None:
    model = one_of("hw:sound_model", options.agreed("sound_model"), _SOUND_MODELS)
    if model in unusable_sound_cards(host):
        raise UnsupportedGuest(f"hw:sound_model={model} is not supported by this host.")
    return model


def describe_tpm(options: GuestOptions, settings: LibvirtSettings) -> Tpm | None:
    """Return the requested TPM. Raises: UnsupportedGuest, also if the operator has not enabled TPMs."""
    version = one_of("hw:tpm_version", options.agreed("tpm_version"), ("1.2", "2.0"))
    model = one_of("hw:tpm_model", options.agreed("tpm_model"), _TPM_MODELS) or _TPM_MODELS[0]
    if version is None:
        return None
    if not settings.swtpm_enabled:
        raise UnsupportedGuest(
            f"hw:tpm_version={version} is not supported by this host: [libvirt] swtpm_enabled is off."
        )
    if options.spec("hw:tpm_secret_security") is not None:
        raise UnsupportedGuest("hw:tpm_secret_security is not supported by this host: its TPMs store no secret.")
    if model == "tpm-crb" and version != "2.0":
        raise UnsupportedGuest("hw:tpm_model=tpm-crb needs hw:tpm_version=2.0.")
    return Tpm(version, model)


def describe_iommu(options: GuestOptions, board: Board, virt_type: str) -> Iommu | None:
    """Return the virtual IOMMU that the flavor or image requests. Raises: UnsupportedGuest naming the property."""
    asked = options.spec("hw:viommu_model") or options.property("hw_viommu_model")
    model = one_of("hw:viommu_model", asked, _VIOMMU_MODELS)
    if model is None:
        return None
    if board.is_x86:
        if not board.is_q35:
            raise UnsupportedGuest(f"hw:viommu_model={model} needs hw_machine_type=q35.")
        one_of("hw:viommu_model", model, ("auto", "intel", "virtio"))
    if model == "auto":
        model = "virtio"
    if model != "intel":
        return Iommu(model)
    by_kvm = "on" if virt_type == VirtType.KVM else None
    options_of_driver = {"intremap": by_kvm, "caching_mode": "on", "eim": by_kvm, "iotlb": "on"}
    given = {name: value for name, value in options_of_driver.items() if value is not None}
    return Iommu(model, {**given, "aw_bits": _ADDRESS_BITS})


def describe_host_devices(devices: tuple[GuestDevice, ...]) -> tuple[HostDevice, ...]:
    """Return the PCI devices that the claim reserved. Raises: UnsupportedGuest if an address is not a PCI address."""
    return tuple(_host_device(device) for device in devices)


def describe_balloon(settings: LibvirtSettings) -> Balloon:
    period = settings.mem_stats_period_s
    return Balloon("virtio", period) if period > 0 else Balloon("none")


def pcie_ports(board: Board, settings: LibvirtSettings) -> tuple[Controller, ...]:
    """Return the PCI Express root bus and [libvirt] num_pcie_ports root ports for hotplug; empty without root ports."""
    if not settings.num_pcie_ports or not board.is_q35:
        return ()
    ports = [Controller("pci", None, "pcie-root-port")] * settings.num_pcie_ports
    return (Controller("pci", 0, "pcie-root"), *ports)


def _host_device(device: GuestDevice) -> HostDevice:
    found = HostDevice.at(device.address)
    if found is None:
        raise UnsupportedGuest(f"The address {shown(device.address)} of a reserved device is not a PCI address.")
    return replace(found, managed=dict(device.tags).get("managed", "yes").lower() not in _NO)
