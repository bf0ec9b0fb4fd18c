# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import NO_AGGREGATES, required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import TransformImageMetadata


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"hw_vif_model": "e1000e"}, {"COMPUTE_NET_VIF_MODEL_E1000E"}),
        (
            {"hw_vif_model": "spapr-vlan", "hw_video_model": "qxl"},
            {"COMPUTE_NET_VIF_MODEL_SPAPR_VLAN", "COMPUTE_GRAPHICS_MODEL_QXL"},
        ),
        ({"hw_vif_model": "VirtualVmxnet3"}, {"COMPUTE_NET_VIF_MODEL_VMXNET3"}),
        ({"hw_disk_bus": "scsi", "hw_cdrom_bus": "ide"}, {"COMPUTE_STORAGE_BUS_SCSI", "COMPUTE_STORAGE_BUS_IDE"}),
        ({"hw_disk_bus": "virtio", "hw_cdrom_bus": "sata"}, {"COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_STORAGE_BUS_SATA"}),
        ({"architecture": "amd64"}, {"HW_ARCH_X86_64"}),
        ({"hw_architecture": "i486"}, {"HW_ARCH_I686"}),
        (
            {"hw_disk_bus": "virtio", "hw_viommu_model": "intel"},
            {"COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_VIOMMU_MODEL_INTEL"},
        ),
        ({"hw_emulation_architecture": "i686", "hw_vif_model": "virtio"}, set()),
        ({"hw_emulation_architecture": "riscv64"}, {"COMPUTE_ARCH_RISCV64"}),
        ({"vmware_adaptertype": "ide"}, {"COMPUTE_STORAGE_BUS_IDE"}),
        ({"vmware_adaptertype": "lsiLogic"}, {"COMPUTE_STORAGE_BUS_SCSI"}),
        ({"vmware_adaptertype": "lsiLogic", "hw_disk_bus": "usb"}, {"COMPUTE_STORAGE_BUS_USB"}),
        ({"hw_vif_model": "virtio", "hw_video_model": "crystal-ball"}, set()),
        ({"hw_floppy_bus": "fdc", "hw_rescue_bus": "ide", "img_hv_type": "kvm", "os": "linux"}, set()),
        ({"hw_vif_model": ""}, set()),
        ({}, set()),
    ],
)
def test_device_models_of_an_image_require_their_traits(properties: dict[str, str], expected: set[str]) -> None:
    assert required(TransformImageMetadata(), request({}, properties)) == expected


def test_without_an_image_no_device_model_is_required() -> None:
    assert required(TransformImageMetadata(), request()) == set()


def test_a_value_without_a_trait_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    spec = request({}, {"hw_vif_model": "carrier-pigeon"}, request_id="req-1")
    TransformImageMetadata().apply(spec, NO_AGGREGATES)
    assert "[req-1] Image property hw_vif_model=carrier-pigeon has no trait" in caplog.text
