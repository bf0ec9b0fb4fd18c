# SPDX-License-Identifier: Apache-2.0
"""The simulated hypervisor: the traits it reports, and the guests it refuses because it lacks what they ask for."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.host import Capabilities
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import CAPABILITY_TRAITS, SimulatedHost

MODELS = {"hw_vif_model": ("virtio", "VirtualE1000"), "hw_disk_bus": ("scsi",)}


def driver(folder: Path, **facts: Any) -> FakeDriver:
    return FakeDriver(SimulatedHost("node1", **facts), folder / "node1.json", AllocationRatios())


def guest(**properties: str) -> GuestSpec:
    return GuestSpec(uuid="u", name="vm", hostname="vm", vcpus=1, memory_mib=1, root_gib=1, image_properties=properties)


def test_traits_follow_from_capabilities_and_models(tmp_path: Path) -> None:
    plain = driver(tmp_path).report().traits
    assert set(plain) == {*CAPABILITY_TRAITS, "HW_ARCH_X86_64"}
    special = driver(
        tmp_path, models=MODELS, traits=("CUSTOM_A", "HW_ARCH_X86_64"), lacks=("COMPUTE_IMAGE_TYPE_RAW",)
    ).report()
    assert len(special.traits) == len(set(special.traits))
    assert set(special.traits) ^ set(plain) == {
        "COMPUTE_IMAGE_TYPE_RAW",
        "COMPUTE_NET_VIF_MODEL_E1000",
        "COMPUTE_NET_VIF_MODEL_VIRTIO",
        "COMPUTE_STORAGE_BUS_SCSI",
        "CUSTOM_A",
    }


def test_a_guest_with_a_model_it_lacks_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    host = driver(tmp_path, models=MODELS)
    with pytest.raises(DriverError, match=r"^The hypervisor does not support hw_vif_model=igb\.$"):
        host.spawn(guest(hw_vif_model="igb"))
    assert host.list_guests() == {}
    host.spawn(guest(hw_vif_model="e1000", hw_disk_bus="scsi", hw_video_model="qxl"))
    host.spawn(guest(hw_vif_model="igb"))  # it runs already
    assert set(host.list_guests()) == {"u"}


def test_a_host_that_says_nothing_of_models_takes_all(tmp_path: Path) -> None:
    host = driver(tmp_path)
    host.spawn(guest(hw_vif_model="igb", hw_video_model="no-such"))
    assert set(host.list_guests()) == {"u"}


def test_the_architecture_is_the_processors_or_else_that_of_the_guests_it_runs(tmp_path: Path) -> None:
    arm = (("aarch64", "kvm", "hvm"),)

    def architectures(**facts: Any) -> set[str]:
        traits = driver(tmp_path, capabilities=Capabilities(**facts)).report().traits
        return {trait for trait in traits if trait.startswith("HW_ARCH")}

    assert architectures(supported_instances=arm, cpu_info={"arch": "x86_64"}) == {"HW_ARCH_AARCH64"}
    assert architectures(supported_instances=arm) == {"HW_ARCH_AARCH64"}
    assert architectures(cpu_info={"arch": "amd64"}) == {"HW_ARCH_X86_64"}
    assert architectures() == set()


@pytest.mark.parametrize(
    "beginning",
    [
        "COMPUTE_ACCELERATORS",
        "COMPUTE_DEVICE_",
        "COMPUTE_NET_",
        "COMPUTE_VOLUME_",
        "COMPUTE_STORAGE_",
        "COMPUTE_MEM_",
        "COMPUTE_TRUSTED_CERTS",
        "COMPUTE_EPHEMERAL_ENCRYPTION",
        "COMPUTE_SECURITY_TPM",
        "COMPUTE_SECURITY_UEFI",
    ],
)
def test_what_nothing_here_can_do_is_reported_only_where_a_scenario_says_so(tmp_path: Path, beginning: str) -> None:
    assert not [trait for trait in driver(tmp_path).report().traits if trait.startswith(beginning)]
    assert "COMPUTE_ACCELERATORS" in driver(tmp_path, traits=("COMPUTE_ACCELERATORS",)).report().traits
