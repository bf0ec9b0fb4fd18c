# SPDX-License-Identifier: Apache-2.0
"""Request filters that require traits of the host, each with requests that call for it and requests that do not."""

from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import request

from kilonova.errors import RequestFilterFailed
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestedNetwork, RequestSpec
from kilonova.scheduler.host_table import AggregateIndex
from kilonova.scheduler.request_filters import (
    AcceleratorsFilter,
    EphemeralEncryptionFilter,
    OwnerNovaFilter,
    PackedVirtqueueFilter,
    RemoteManagedPortsFilter,
    RequireImageTypeSupport,
    RoutedNetworksFilter,
    TpmSecretSecurityFilter,
    TransformImageMetadata,
    VirtioSoundFilter,
)
from kilonova.scheduler.rule import RequestFilter

NO_AGGREGATES = AggregateIndex.of((), ())
ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"
SECRET = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"


def required(rule: RequestFilter, spec: RequestSpec) -> set[str]:
    """Apply a rule and return the traits it requires; nothing else may change."""
    after = rule.apply(spec, NO_AGGREGATES)
    assert after == spec.requiring(*after.query.root_required)
    return set(after.query.root_required)


@pytest.mark.parametrize(
    ("rule", "extra_specs", "properties", "expected"),
    [
        (AcceleratorsFilter(), {"accel:device_profile": "fpga"}, {}, {"COMPUTE_ACCELERATORS"}),
        (AcceleratorsFilter(), {"accel:device_profile": ""}, {}, set()),
        (PackedVirtqueueFilter(), {"hw:virtio_packed_ring": "True"}, {}, {"COMPUTE_NET_VIRTIO_PACKED"}),
        (PackedVirtqueueFilter(), {}, {"hw_virtio_packed_ring": "yes"}, {"COMPUTE_NET_VIRTIO_PACKED"}),
        (PackedVirtqueueFilter(), {"hw:virtio_packed_ring": "false"}, {}, set()),
        (EphemeralEncryptionFilter(), {"hw:ephemeral_encryption": "true"}, {}, {ENCRYPTION}),
        (
            EphemeralEncryptionFilter(),
            {"hw:ephemeral_encryption": "true"},
            {"hw_ephemeral_encryption_format": "luks"},
            {ENCRYPTION, f"{ENCRYPTION}_LUKS"},
        ),
        (
            EphemeralEncryptionFilter(),
            {"hw:ephemeral_encryption_format": "plain"},
            {"hw_ephemeral_encryption": "1"},
            {ENCRYPTION, f"{ENCRYPTION}_PLAIN"},
        ),
        (EphemeralEncryptionFilter(), {"hw:ephemeral_encryption_format": "luksv2"}, {}, set()),
        (VirtioSoundFilter(), {"hw:sound_model": "virtio"}, {}, {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        (VirtioSoundFilter(), {}, {"hw_sound_model": "virtio"}, {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        (VirtioSoundFilter(), {"hw:sound_model": "ich9"}, {"hw_sound_model": "virtio"}, set()),
        (TpmSecretSecurityFilter(), {"hw:tpm_version": "2.0"}, {}, {f"{SECRET}USER"}),
        (TpmSecretSecurityFilter(), {}, {"hw_tpm_version": "1.2", "hw_tpm_secret_security": "host"}, {f"{SECRET}USER"}),
        (
            TpmSecretSecurityFilter(),
            {"hw:tpm_version": "2.0", "hw:tpm_secret_security": "deployment"},
            {},
            {f"{SECRET}DEPLOYMENT"},
        ),
        (TpmSecretSecurityFilter(), {"hw:tpm_secret_security": "nonsense"}, {}, set()),
        (OwnerNovaFilter(), {}, {}, {"OWNER_NOVA"}),
    ],
)
def test_a_feature_requires_its_trait(
    rule: RequestFilter, extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    assert required(rule, request(extra_specs, properties)) == expected


def test_an_unknown_secret_security_is_refused() -> None:
    spec = request({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "nonsense"})
    with pytest.raises(RequestFilterFailed, match="nonsense"):
        TpmSecretSecurityFilter().apply(spec, NO_AGGREGATES)


@pytest.mark.parametrize(
    ("disk_format", "volume_backed", "expected"),
    [
        ("raw", False, {"COMPUTE_IMAGE_TYPE_RAW"}),
        ("qcow2", False, {"COMPUTE_IMAGE_TYPE_QCOW2"}),
        ("qcow2", True, set()),
        ("docker", False, set()),
    ],
)
def test_a_disk_format_requires_its_trait(disk_format: str, volume_backed: bool, expected: set[str]) -> None:
    spec = request(image=Image("i", disk_format=disk_format), volume_backed=volume_backed)
    assert required(RequireImageTypeSupport(), spec) == expected


def test_without_an_image_no_disk_format_and_no_device_model_is_required() -> None:
    assert required(RequireImageTypeSupport(), request()) == set()
    assert required(TransformImageMetadata(), request()) == set()


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


def test_a_value_without_a_trait_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    spec = request({}, {"hw_vif_model": "carrier-pigeon"}, request_id="req-1")
    TransformImageMetadata().apply(spec, NO_AGGREGATES)
    assert "[req-1] no trait for hw_vif_model=carrier-pigeon" in caplog.text


def test_routed_networks_ask_for_an_aggregate_of_their_segments_each() -> None:
    first, second, third = (frozenset({uuid}) for uuid in ("a", "b", "c"))
    networks = (RequestedNetwork("n1", segments=(first, second)), RequestedNetwork("n2"), RequestedNetwork("n3"))
    spec = request(networks=(*networks, RequestedNetwork("n4", segments=(third,))))
    query = RoutedNetworksFilter().apply(spec, NO_AGGREGATES).query
    assert query.member_of == (first | second, third)


def test_a_segment_without_an_aggregate_is_refused() -> None:
    spec = request(networks=(RequestedNetwork("n1", segments=(frozenset({"a"}), frozenset())),))
    with pytest.raises(RequestFilterFailed, match="n1"):
        RoutedNetworksFilter().apply(spec, NO_AGGREGATES)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), set()),
        (("normal", "direct"), set()),
        (("normal", "remote-managed"), {"COMPUTE_REMOTE_MANAGED_PORTS"}),
    ],
)
def test_remote_managed_ports_require_their_trait(types: tuple[str, ...], expected: set[str]) -> None:
    networks: Any = tuple(RequestedNetwork("n", vnic_type=kind) for kind in types)
    assert required(RemoteManagedPortsFilter(), request(networks=networks)) == expected
