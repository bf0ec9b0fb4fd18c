# SPDX-License-Identifier: Apache-2.0
"""The cache of the read-only switch, and the configured switch."""

from pathlib import Path

from kilonova.api.read_only import ReadOnlySwitch
from kilonova.db import switches
from support.control import Control, start_control


def test_another_process_follows_within_a_second(control: Control) -> None:
    now = [0.0]
    switch = ReadOnlySwitch(control.process.database, clock=lambda: now[0])
    assert switch.reason() is None
    control.process.database.write(lambda tx: switches.turn_on(tx, switches.READ_ONLY, "elsewhere"))
    now[0] += 0.5
    assert switch.reason() is None
    now[0] += 0.5
    assert switch.reason() == "elsewhere"


def test_a_configuration_can_say_so(tmp_path: Path) -> None:
    control = start_control(tmp_path, more="[api]\nread_only = true\n")
    try:
        assert control.admin.post("/flavors", {}).status == 503
        answer = control.operator.get("/read-only")
        assert answer.body["read_only"]["configured"]
    finally:
        control.process.close()
