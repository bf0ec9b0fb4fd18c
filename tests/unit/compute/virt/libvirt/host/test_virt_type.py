# SPDX-License-Identifier: Apache-2.0
"""Whether guests run by KVM: it is tried, because a device that is there may hang."""

import logging
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.host import tiny_guest
from kilonova.compute.virt.libvirt.host.virt_type import KvmTrial, choose_virt_type
from kilonova.errors import ConfigurationError
from support.stand_in_emulator import stand_in

_WORKS = f"exit {tiny_guest.EXIT_CODE}"
_FAILURES = [
    ("exec sleep 30", "did not end within 0.2 s"),
    ("echo 'qemu: warning: pni' >&2; echo 'Could not access KVM.' >&2; exit 1", "ended with 1.*Could not access KVM"),
    ('echo \'{"timestamp": {}, "event": "STOP"}\'; exec sleep 30', "a tiny guest was stopped"),
    ("exit 0", "ended with 0"),
]


def _choice(folder: Path, setting: str, script: str, types: tuple[str, ...] = ("kvm", "qemu")) -> str:
    device = folder / "kvm"
    device.touch()
    timeout_s = 0.2 if script == "exec sleep 30" else 10
    trial = KvmTrial(device, timeout_s)
    return choose_virt_type(setting, stand_in(folder, script), "x86_64", types, trial)


@pytest.mark.parametrize("setting", ["", "kvm"])
def test_kvm_is_chosen_where_a_tiny_guest_runs(tmp_path: Path, setting: str) -> None:
    assert _choice(tmp_path, setting, _WORKS) == "kvm"


@pytest.mark.parametrize(("script", "reason"), _FAILURES, ids=["hangs", "refuses", "stands still", "ends otherwise"])
def test_guests_are_emulated_where_it_does_not_and_the_log_says_why(
    tmp_path: Path, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert _choice(tmp_path, "", script) == "qemu"
    (record,) = caplog.records
    assert "KVM does not work" in record.getMessage()
    with pytest.raises(ConfigurationError, match=rf"\[libvirt\] virt_type is kvm.*{reason}"):
        _choice(tmp_path, "kvm", script)


def test_a_host_whose_libvirt_has_no_kvm(tmp_path: Path) -> None:
    assert _choice(tmp_path, "", _WORKS, types=("qemu",)) == "qemu"


def test_a_host_without_the_device(tmp_path: Path) -> None:
    none = tmp_path / "none"
    with pytest.raises(ConfigurationError, match="there is no"):
        choose_virt_type("kvm", stand_in(tmp_path, _WORKS), "x86_64", ("kvm",), KvmTrial(none))


def test_a_device_that_only_libvirtd_may_open_is_used_if_operators_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    trial = KvmTrial(device, may_open=lambda _: False)
    program = stand_in(tmp_path, "touch $0.tried; " + _WORKS)
    assert choose_virt_type("kvm", program, "x86_64", ("kvm",), trial) == "kvm"
    assert choose_virt_type("", program, "x86_64", ("kvm",), trial) == "qemu"
    assert not (tmp_path / "emulator.tried").exists()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_who_asks_for_qemu_gets_it_and_nothing_is_tried(tmp_path: Path) -> None:
    assert _choice(tmp_path, "qemu", "touch $0.tried; " + _WORKS) == "qemu"
    assert not (tmp_path / "emulator.tried").exists()
