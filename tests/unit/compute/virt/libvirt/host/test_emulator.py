# SPDX-License-Identifier: Apache-2.0
"""Asking an emulator for its devices."""

import os
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.host.emulator import device_types
from kilonova.errors import DriverError
from support.stand_in_emulator import stand_in

_GREETING = '{"QMP": {"version": {}}}'


def _answering(*names: str) -> str:
    found = ", ".join(f'{{"name": "{name}", "parent": "device"}}' for name in names)
    return f'echo \'{_GREETING}\'; echo x >> "$0.asked"; echo \'{{"return": [{found}], "id": "devices"}}\''


def test_the_devices_are_those_that_the_emulator_names(tmp_path: Path) -> None:
    assert device_types(stand_in(tmp_path, _answering("e1000", "igb"))) == {"e1000", "igb"}


def test_it_is_asked_once_and_again_when_it_is_replaced(tmp_path: Path) -> None:
    program = stand_in(tmp_path, _answering("e1000"))
    device_types(program)
    assert device_types(program) == {"e1000"}
    assert (tmp_path / "emulator.asked").read_text() == "x\n"
    stand_in(tmp_path, _answering("igb"))
    os.utime(program, (1, 1))
    assert device_types(program) == {"igb"}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec sleep 30", "did not list its devices within 0.3 s"),
        ("exit 3", "did not list its devices; it exited with 3"),
        (f"echo '{_GREETING}'; echo nonsense; echo '[1]'", "did not list its devices; it exited with 0"),
        ('echo \'{"error": {"desc": "no"}, "id": "devices"}\'', "did not list its devices"),
    ],
    ids=["it hangs", "it fails", "it says something else", "it refuses"],
)
def test_an_emulator_that_does_not_answer(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(DriverError, match=said):
        device_types(stand_in(tmp_path, script), timeout_s=0.3 if "sleep" in script else 10)


def test_an_emulator_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="No such file"):
        device_types(str(tmp_path / "none"))
