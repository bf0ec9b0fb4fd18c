# SPDX-License-Identifier: Apache-2.0
"""libvirt XML of the devices of a domain."""

from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.device_description import (
    Balloon,
    BridgeSource,
    Devices,
    Disk,
    Graphics,
    HostDevice,
    Iommu,
    MacvtapSource,
    Nic,
    PciSource,
    Rng,
    Serial,
    Video,
)
from kilonova.compute.virt.libvirt.domain.xml_elements import child, flag

#: Offloads that a virtio card has both for the host and for the guest.
_OFFLOADS = ("csum", "tso4", "tso6", "ecn", "ufo")


def add_devices(parent: ET.Element, devices: Devices) -> None:
    """Add all devices to the ``devices`` element. Raises: UnsupportedGuest for a text that XML cannot represent."""
    for disk in devices.disks:
        _add_disk(parent, disk)
    for controller in devices.controllers:
        child(parent, "controller", type=controller.type, index=controller.index, model=controller.model)
    for nic in devices.nics:
        _add_nic(parent, nic)
    for number, serial in enumerate(devices.serials):
        _add_serial(parent, number, serial)
    for channel in devices.channels:
        element = child(parent, "channel", type="unix")
        child(element, "target", type="virtio", name=channel.name)
    for device in devices.inputs:
        child(parent, "input", type=device.type, bus=device.bus)
    if devices.tpm is not None:
        tpm = child(parent, "tpm", model=devices.tpm.model)
        child(tpm, "backend", type="emulator", version=devices.tpm.version)
    if devices.graphics is not None:
        _add_graphics(parent, devices.graphics)
    if devices.sound is not None:
        child(parent, "sound", model=devices.sound)
    if devices.video is not None:
        _add_video(parent, devices.video)
    for host_device in devices.host_devices:
        _add_host_device(parent, host_device)
    if devices.watchdog is not None:
        child(parent, "watchdog", model=devices.watchdog.model, action=devices.watchdog.action)
    _add_balloon(parent, devices.balloon)
    if devices.rng is not None:
        _add_rng(parent, devices.rng)
    if devices.iommu is not None:
        _add_iommu(parent, devices.iommu)


def interface_xml(device: Nic | HostDevice) -> str:
    """Return the XML of one network interface, to attach it to a domain.

    Raises: UnsupportedGuest for a text that XML cannot represent.
    """
    parent = ET.Element("devices")
    if isinstance(device, Nic):
        _add_nic(parent, device)
    else:
        _add_host_device(parent, device)
    return ET.tostring(parent[0], encoding="unicode")


def _add_disk(parent: ET.Element, disk: Disk) -> None:
    element = child(parent, "disk", type="file", device=disk.device)
    child(element, "driver", name="qemu", type=disk.format, cache=disk.cache, discard=disk.discard)
    child(element, "source", file=disk.path)
    child(element, "target", dev=disk.target, bus=disk.bus)
    if disk.limits:
        limits = child(element, "iotune")
        for name, value in disk.limits.items():
            child(limits, name, value)
    if disk.read_only:
        child(element, "readonly")
    if disk.boot_order is not None:
        child(element, "boot", order=disk.boot_order)


def _add_nic(parent: ET.Element, nic: Nic) -> None:
    match nic.source:
        case BridgeSource(bridge, interface_id):
            element = child(parent, "interface", type="bridge")
            child(element, "source", bridge=bridge)
            if interface_id is not None:
                child(child(element, "virtualport", type="openvswitch"), "parameters", interfaceid=interface_id)
        case MacvtapSource(device, mode):
            element = child(parent, "interface", type="direct")
            child(element, "source", dev=device, mode=mode)
        case PciSource(pci, vlan):
            element = child(parent, "interface", type="hostdev", managed=flag(pci.managed, otherwise="no"))
            _add_pci_address(child(element, "source"), pci, type="pci")
            if vlan is not None:
                child(child(element, "vlan"), "tag", id=vlan)
    child(element, "mac", address=nic.mac)
    if nic.target is not None:
        child(element, "target", dev=nic.target)
    if nic.model is not None:
        child(element, "model", type=nic.model)
    _add_nic_driver(element, nic)
    if nic.mtu is not None:
        child(element, "mtu", size=nic.mtu)
    if nic.alias is not None:
        child(element, "alias", name=nic.alias)


def _add_nic_driver(parent: ET.Element, nic: Nic) -> None:
    if nic.queues is None and not nic.packed and nic.offloads:
        return
    element = child(parent, "driver", queues=nic.queues, packed="on" if nic.packed else None)
    if not nic.offloads:
        child(element, "host", **dict.fromkeys((*_OFFLOADS, "gso"), "off"))
        child(element, "guest", **dict.fromkeys(_OFFLOADS, "off"))


def _add_serial(parent: ET.Element, number: int, serial: Serial) -> None:
    listens = serial.port is not None
    element = child(parent, "serial", type="tcp" if listens else "pty")
    if listens:
        child(element, "source", mode="bind", host=serial.host, service=serial.port)
        child(element, "protocol", type="raw")
    if serial.log is not None:
        child(element, "log", file=serial.log, append="on")
    child(element, "target", port=number)


def _add_graphics(parent: ET.Element, graphics: Graphics) -> None:
    element = child(parent, "graphics", type="vnc", port=-1, autoport="yes")
    child(element, "listen", type="address", address=graphics.listen)


def _add_video(parent: ET.Element, video: Video) -> None:
    child(child(parent, "video"), "model", type=video.model, vram=video.vram_kib)


def _add_host_device(parent: ET.Element, device: HostDevice) -> None:
    managed = flag(device.managed, otherwise="no")
    element = child(parent, "hostdev", mode="subsystem", type="pci", managed=managed)
    _add_pci_address(child(element, "source"), device)
    if device.alias is not None:
        child(element, "alias", name=device.alias)


def _add_pci_address(parent: ET.Element, device: HostDevice, **attributes: str) -> None:
    child(
        parent,
        "address",
        **attributes,
        domain=f"0x{device.domain:04x}",
        bus=f"0x{device.bus:02x}",
        slot=f"0x{device.slot:02x}",
        function=f"0x{device.function:x}",
    )


def _add_balloon(parent: ET.Element, balloon: Balloon) -> None:
    element = child(parent, "memballoon", model=balloon.model)
    if balloon.stats_period_s is not None:
        child(element, "stats", period=balloon.stats_period_s)


def _add_rng(parent: ET.Element, rng: Rng) -> None:
    element = child(parent, "rng", model="virtio")
    if rng.rate_bytes is not None:
        child(element, "rate", bytes=rng.rate_bytes, period=rng.rate_period)
    child(element, "backend", rng.source, model="random")


def _add_iommu(parent: ET.Element, iommu: Iommu) -> None:
    element = child(parent, "iommu", model=iommu.model)
    if iommu.options:
        child(element, "driver", **iommu.options)
