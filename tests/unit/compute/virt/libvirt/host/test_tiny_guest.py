# SPDX-License-Identifier: Apache-2.0
"""The guest with which KVM is tried."""

from pathlib import Path

from kilonova.compute.virt.libvirt.host.virt_type import KvmTrial, choose_virt_type
from support.stand_in_emulator import stand_in


def test_of_other_architectures_a_machine_is_made(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch()
    program = stand_in(tmp_path, 'echo "$*" > $0.asked')
    assert choose_virt_type("", program, "ppc64le", ("kvm",), KvmTrial(device)) == "kvm"
    assert "-accel kvm" in (tmp_path / "emulator.asked").read_text()
    assert "-machine pseries" in (tmp_path / "emulator.asked").read_text()
