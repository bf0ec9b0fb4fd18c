# SPDX-License-Identifier: Apache-2.0
import pytest
from os_traits import get_traits

from kilonova.model.device_models import DEVICE_FAMILIES, DeviceModel, device_models, trait_of, unsupported

VALUES = {
    "hw_vif_model": "virtio ne2k_pci pcnet rtl8139 e1000 e1000e spapr-vlan netfront lan9118 vmxnet3 igb vmxnet sriov",
    "hw_video_model": "vga cirrus vmvga xen qxl virtio gop none bochs",
    "hw_disk_bus": "scsi virtio uml xen ide usb fdc sata lxc",
    "hw_cdrom_bus": "scsi virtio uml xen ide usb fdc sata lxc",
    "hw_viommu_model": "intel smmuv3 virtio auto",
}


@pytest.mark.parametrize("name", DEVICE_FAMILIES)
def test_the_values_of_a_property_and_its_standard_traits_are_the_same(name: str) -> None:
    traits = {trait_of(name, value) for value in VALUES[name].split()}
    assert traits == set(get_traits(prefix=DEVICE_FAMILIES[name]))


def test_all_architectures_of_the_standard_traits_can_be_asked_for() -> None:
    for name, prefix in (("hw_architecture", "HW_ARCH_"), ("hw_emulation_architecture", "COMPUTE_ARCH_")):
        for trait in get_traits(prefix=prefix):
            assert trait_of(name, trait.removeprefix(prefix).lower()) == trait


def test_values_have_one_spelling() -> None:
    asked = device_models({"hw_vif_model": "VirtualPCNet32", "hw_video_model": "QXL", "architecture": "AMD64"})
    assert asked == (
        DeviceModel("hw_vif_model", "pcnet", "COMPUTE_NET_VIF_MODEL_PCNET"),
        DeviceModel("hw_video_model", "qxl", "COMPUTE_GRAPHICS_MODEL_QXL"),
        DeviceModel("hw_architecture", "x86_64", "HW_ARCH_X86_64"),
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"hw_vif_model": "VirtualE1000"}, None),
        ({"hw_vif_model": "igb"}, "hw_vif_model"),
        ({"hw_vif_model": "no-such-card"}, "hw_vif_model"),
        ({"hw_cdrom_bus": "scsi"}, None),
        ({"hw_cdrom_bus": "ide"}, "hw_cdrom_bus"),
        ({"hw_video_model": "qxl", "hw_architecture": "s390x"}, None),
    ],
)
def test_only_what_a_hypervisor_speaks_of_is_judged(properties: dict[str, str], expected: str | None) -> None:
    lacking = unsupported(properties, {"hw_vif_model": ["virtio", "E1000"], "hw_disk_bus": ["scsi"]})
    assert (lacking and lacking.property) == expected
