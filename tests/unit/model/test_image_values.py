# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.model.image_values import canonical_vif_model, impossible_value


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"my_own_key": "anything"},
        {"hw_disk_bus": "virtio", "hw_vif_model": "VirtualE1000e"},
        {"architecture": "amd64"},
        {"hypervisor_type": "KVM", "os_type": "Linux"},
        {"hw_scsi_model": "lsiLogicSAS"},
        {"vmware_adaptertype": "ide"},
        {"vmware_adaptertype": ""},
        {"vmware_adaptertype": "paraVirtual"},
        {"hw_cpu_cores": " +4 ", "hw_video_ram": -1},
        {"img_hv_requested_version": ">=6.0, <7.0"},
    ],
)
def test_possible_values_pass(properties: dict[str, Any]) -> None:
    assert impossible_value(properties) is None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"hw_tpm_version": "2.0", "hw_disk_bus": "scsi2"}, "hw_disk_bus=scsi2: expected one of fdc, ide, sata,"),
        ({"architecture": "z80"}, "architecture=z80: expected one of alpha,"),
        ({"hw_cpu_cores": "four"}, "hw_cpu_cores=four: expected a whole number."),
        ({"hw_cpu_cores": "1" * 19}, "expected a whole number."),
        ({"img_hv_requested_version": "6.0"}, "expected versions such as '>=6.0, <7.0'."),
        ({"vmware_adaptertype": "floppy"}, "vmware_adaptertype=floppy: expected one of buslogic,"),
    ],
)
def test_an_impossible_value_is_named_as_the_image_has_it(properties: dict[str, Any], message: str) -> None:
    found = impossible_value(properties)
    assert found is not None
    assert message in found


def test_network_cards_of_vmware_have_their_present_names() -> None:
    assert canonical_vif_model("VirtualSriovEthernetCard") == "sriov"
    assert canonical_vif_model("E1000") == "e1000"
