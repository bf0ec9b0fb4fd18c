# SPDX-License-Identifier: Apache-2.0
"""The files of simulated hypervisors: those that earlier releases wrote are read as what they mean."""

import json
from pathlib import Path

from kilonova.messaging.messages import FinishMove, MoveAway, ReturnHome, SpawnGuest, StopGuest
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, new_step


def test_a_file_of_before_is_read_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "node1.json").write_text('{"a": 1, "b": 4, "c": 3}')
    host = OneHost(tmp_path)
    before = {"a": PowerState.RUNNING, "b": PowerState.SHUTDOWN, "c": PowerState.PAUSED}
    assert host.driver.list_guests() == before
    host.do(StopGuest(new_step(), "a"))
    assert OneHost(tmp_path).driver.list_guests() == {**before, "a": PowerState.SHUTDOWN}


def test_a_guest_of_before_can_move_and_return(tmp_path: Path) -> None:
    (tmp_path / "node1.json").write_text('{"a": 1}')
    OneHost(tmp_path).do(MoveAway(new_step(), "a", "node1"))
    OneHost(tmp_path).do(FinishMove(new_step(), guest("a"), "node1", power_on=True))
    assert OneHost(tmp_path).do(MoveAway(new_step(), "a", "node1")).error is None
    host = OneHost(tmp_path, "node2")
    assert host.do(ReturnHome(new_step(), guest("a"), power_on=True)).error == "Guest a does not exist."
    assert set(json.loads((tmp_path / "node1.json").read_text())["a"]) == {"guest", "kept"}


def test_a_host_without_guests_has_an_empty_file(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest()))
    host.driver.destroy("a")
    assert json.loads(host.file.read_text()) == {}
