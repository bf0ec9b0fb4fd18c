# SPDX-License-Identifier: Apache-2.0
"""Recorded and shortened libvirt capabilities of several hosts, from tests/fixtures/libvirt."""

from pathlib import Path

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.capabilities_xml import HostFacts, read_capabilities, read_host
from kilonova.compute.virt.libvirt.host.traits import traits_of
from kilonova.config.libvirt import LibvirtSettings

FIXTURES = Path(__file__).parents[1] / "fixtures" / "libvirt"
#: Some of the PC devices of QEMU 7.2.
PC_DEVICES = (
    *("virtio-net-pci", "e1000", "e1000e", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3", "virtio-scsi-pci", "lsi53c895a"),
    *("nec-usb-xhci", "qemu-xhci", "sb16", "ES1370", "isa-pcspk", "AC97", "intel-hda", "ich9-intel-hda", "usb-audio"),
    *("intel-iommu", "virtio-iommu-pci", "usb-tablet", "virtio-tablet-pci", "i6300esb", "virtio-rng-pci"),
)
ARM_DEVICES = ("virtio-net-pci", "virtio-scsi-pci", "qemu-xhci", "arm-smmuv3", "usb-tablet", "virtio-rng-pci")


def text_of(host: str, name: str) -> str:
    """Return a recorded text."""
    return (FIXTURES / host / f"{name}.xml").read_text()


def facts_of(host: str) -> HostFacts:
    """Return the facts of a host from its recorded capabilities."""
    return read_host(text_of(host, "capabilities"))


def debian_12() -> HostCapabilities:
    """Return a host without KVM: libvirt 9.0, QEMU 7.2, with the machine types pc and q35."""
    host = facts_of("debian-12")
    domains = {name: text_of("debian-12", "q35" if "q35" in name else "pc") for name in host.machines.values()}
    return read_capabilities(
        host,
        domains,
        PC_DEVICES,
        default=text_of("debian-12", "pc"),
        virt_type="qemu",
        libvirt_version=9_000_000,
        qemu_version=7_002_022,
    )


def two_sockets() -> HostCapabilities:
    """Return a host with two NUMA cells, hyper-threading, huge pages, and newer libvirt and QEMU versions."""
    devices = ("virtio-net-pci", "virtio-sound-pci", "AC97", "virtio-scsi-pci")
    return _of_one_board("two-sockets", "q35", "pc-q35-10.1", devices, (11_010_000, 10_001_000))


def arm() -> HostCapabilities:
    """Return an ARM host."""
    return _of_one_board("arm", "virt", "virt-7.2", ARM_DEVICES, (9_000_000, 7_002_000))


def _of_one_board(
    host: str, name: str, board: str, devices: tuple[str, ...], versions: tuple[int, int]
) -> HostCapabilities:
    """Return a KVM host for which one machine type was recorded. ``versions``: of libvirt and QEMU."""
    told = text_of(host, name)
    return read_capabilities(
        facts_of(host),
        {board: told},
        devices,
        default=told,
        virt_type="kvm",
        libvirt_version=versions[0],
        qemu_version=versions[1],
    )


def traits_with(host: HostCapabilities, prefix: str, settings: LibvirtSettings | None = None) -> set[str]:
    """Return the traits of a host with a prefix, without it. ``settings``: by default those without a TPM."""
    traits = traits_of(host, settings or LibvirtSettings())
    return {name.removeprefix(prefix) for name in traits if name.startswith(prefix)}
