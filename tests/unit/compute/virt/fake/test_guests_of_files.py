# SPDX-License-Identifier: Apache-2.0
"""State files of simulated hypervisors, also those that earlier releases wrote."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.messaging.messages import FinishMove, MoveAway, ReturnHome, SpawnGuest, StopGuest
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, new_step

NOON = datetime.fromisoformat("2026-05-01T12:00")


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


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": {"guest": {"state": 1, "origin": "spawned"}, "kept": null}}'])
def test_guests_of_before_marks_came_are_ours_and_older_than_their_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "node1.json"
    file.write_text(text)
    os.utime(file, (NOON.replace(tzinfo=UTC).timestamp(),) * 2)
    driver = OneHost(tmp_path).driver
    assert driver.marked_guests() == {"a": NOON}
    driver.spawn(guest("b", ordered_at=NOON + timedelta(hours=1)))
    assert OneHost(tmp_path).driver.marked_guests() == {"a": NOON, "b": NOON + timedelta(hours=1)}


def test_a_guest_takes_the_time_of_its_order_along(tmp_path: Path) -> None:
    source = OneHost(tmp_path)
    source.do(SpawnGuest(new_step(), guest(ordered_at=NOON)))
    source.do(MoveAway(new_step(), "a", "node2"))
    assert OneHost(tmp_path).driver.marked_guests() == {"a": NOON}
    later = NOON + timedelta(hours=1)
    OneHost(tmp_path, "node2").do(FinishMove(new_step(), guest(ordered_at=later), "node1", power_on=True))
    assert OneHost(tmp_path, "node2").driver.marked_guests() == {"a": later}
    OneHost(tmp_path).do(ReturnHome(new_step(), guest(ordered_at=later), power_on=True))
    assert OneHost(tmp_path).driver.marked_guests() == {"a": NOON}


def test_a_guest_of_somebody_else_bears_no_mark(tmp_path: Path) -> None:
    text = '{"a": {"guest": {"state": 1, "origin": "spawned", "ordered_at": null}, "kept": null}}'
    (tmp_path / "node1.json").write_text(text)
    driver = OneHost(tmp_path).driver
    assert (set(driver.list_guests()), driver.marked_guests()) == ({"a"}, {})
