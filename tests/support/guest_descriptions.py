# SPDX-License-Identifier: Apache-2.0
"""Descriptions of guests for unit tests, on a host with the features of real hosts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole, Domain
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities, MachineType
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.instance import GuestSpec

_VIDEO = frozenset({"vga", "cirrus", "vmvga", "qxl", "virtio", "none", "bochs"})
PC = MachineType(
    name="pc-i440fx-7.2",
    disk_buses=frozenset({"ide", "fdc", "scsi", "virtio", "usb", "sata"}),
    video_models=_VIDEO,
    firmware=frozenset({"bios", "efi"}),
    max_vcpus=255,
)
Q35 = MachineType(
    name="pc-q35-7.2",
    disk_buses=frozenset({"fdc", "scsi", "virtio", "usb", "sata"}),
    video_models=_VIDEO,
    firmware=frozenset({"bios", "efi"}),
    max_vcpus=288,
    loaders=("/ovmf/OVMF_CODE.secboot.fd", "/ovmf/OVMF_CODE.ms.fd", "/ovmf/OVMF_CODE.fd"),
    secure_boot=True,
)
HOST = HostCapabilities(
    architecture="x86_64",
    virt_type="qemu",
    emulator="/usr/bin/qemu-system-x86_64",
    libvirt_version=9_000_000,
    qemu_version=7_002_022,
    machines={"pc": PC, PC.name: PC, "q35": Q35, Q35.name: Q35, "microvm": MachineType("microvm")},
    nic_models=frozenset({"virtio", "e1000", "e1000e", "rtl8139", "vmxnet3"}),
    cpu_models=frozenset({"qemu64", "Nehalem", "EPYC"}),
)
ROOT = DiskFile(DiskRole.ROOT, Path("/instances/u/disk"), "qcow2")
EPHEMERAL = DiskFile(DiskRole.EPHEMERAL, Path("/instances/u/disk.eph0"), "qcow2")
SWAP = DiskFile(DiskRole.SWAP, Path("/instances/u/disk.swap"), "raw")
CONFIG = DiskFile(DiskRole.CONFIG, Path("/instances/u/disk.config"), "raw")
RESCUE = DiskFile(DiskRole.RESCUE, Path("/instances/u/disk.rescue"), "qcow2")


def guest_of(
    specs: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    reserved: GuestDevices | None = None,
    **fields: Any,
) -> GuestSpec:
    """Return a guest with the given flavor and image."""
    return GuestSpec(
        **{
            "uuid": "6f9a53a8-1a0a-4d24-a0a9-3f4b8c2a7a01",
            "name": "instance-0000002a",
            "hostname": "web-1",
            "vcpus": 1,
            "memory_mib": 64,
            "root_gib": 1,
            "extra_specs": specs or {},
            "image_properties": properties or {},
            "reserved": reserved or GuestDevices(),
            **fields,
        }
    )


def described(
    guest: GuestSpec,
    *disks: DiskFile,
    host: HostCapabilities = HOST,
    settings: LibvirtSettings | None = None,
    consoles: ConsoleSettings | None = None,
    rescue: Mapping[str, str] | None = None,
    serial_tcp_ports: tuple[int, ...] = (),
    shared_cpus: frozenset[int] = frozenset(),
) -> Domain:
    """Return the domain of a guest; by default with one root disk."""
    return describe(
        guest,
        host,
        disks or (ROOT,),
        settings or LibvirtSettings(),
        console_log=Path("/instances/u/console.log"),
        consoles=consoles,
        mark="<ours xmlns='urn:test'/>",
        rescue=rescue,
        serial_tcp_ports=serial_tcp_ports,
        shared_cpus=shared_cpus,
    )


def written(domain: Domain) -> ET.Element:
    """Return a domain's XML, parsed."""
    return ET.fromstring(domain_xml(domain))
