# SPDX-License-Identifier: Apache-2.0
"""QEMU devices that implement the device models of image properties."""

from collections.abc import Collection, Mapping

#: Image property → value → QEMU's names of the devices that implement the value, each for another bus. A host supports
#: the value if its QEMU has at least one of these devices.
DEVICE_TYPES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "hw_vif_model": {
        "virtio": ("virtio-net-pci", "virtio-net-ccw", "virtio-net-device"),
        "e1000": ("e1000",),
        "e1000e": ("e1000e",),
        "igb": ("igb",),
        "lan9118": ("lan9118",),
        "ne2k_pci": ("ne2k_pci",),
        "pcnet": ("pcnet",),
        "rtl8139": ("rtl8139",),
        "spapr-vlan": ("spapr-vlan",),
        "vmxnet3": ("vmxnet3",),
    },
    "hw_scsi_model": {
        "virtio-scsi": ("virtio-scsi-pci", "virtio-scsi-ccw", "virtio-scsi-device"),
        "lsilogic": ("lsi53c895a",),
        "lsisas1068": ("mptsas1068",),
        "lsisas1078": ("megasas",),
        "ibmvscsi": ("spapr-vscsi",),
    },
    "hw_usb_model": {"nec-xhci": ("nec-usb-xhci",), "qemu-xhci": ("qemu-xhci",)},
    "hw_sound_model": {
        "sb16": ("sb16",),
        "es1370": ("ES1370",),
        "pcspk": ("isa-pcspk",),
        "ac97": ("AC97",),
        "ich6": ("intel-hda",),
        "ich9": ("ich9-intel-hda",),
        "usb": ("usb-audio",),
        "virtio": ("virtio-sound-pci", "virtio-sound-device"),
    },
    "hw_viommu_model": {
        "intel": ("intel-iommu",),
        "smmuv3": ("arm-smmuv3",),
        "virtio": ("virtio-iommu-pci", "virtio-iommu-device"),
    },
    "hw_input_bus": {
        "usb": ("usb-tablet",),
        "virtio": ("virtio-tablet-pci", "virtio-tablet-ccw", "virtio-tablet-device"),
    },
}


def models_of(name: str, device_types: Collection[str]) -> frozenset[str]:
    """Return the values of the image property ``name`` that one of the emulator's ``device_types`` implements."""
    return frozenset(value for value, types in DEVICE_TYPES[name].items() if not set(types).isdisjoint(device_types))
