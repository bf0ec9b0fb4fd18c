# SPDX-License-Identifier: Apache-2.0
"""A scheduler driver that hangs: its requests fail in time, and nothing else of the service waits for it."""

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control import Control, start_control
from support.waiting import wait_until

MODULE = """
import threading
from kilonova.scheduler.driver import Scheduler

RELEASE = threading.Event()

class Hanging(Scheduler):
    def select_destinations(self, context, request_spec, filter_properties):
        if "hang" in filter_properties["scheduler_hints"]:
            RELEASE.wait(60)
        return [{"host": "node1", "nodename": None}] * request_spec["num_instances"]
"""
MORE = "[scheduler]\nplugin_path = {folder}\ndriver = Hanging\ndriver_timeout = {timeout}\n"


@pytest.fixture
def folder(sqlite_template: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "hanging.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("hanging").RELEASE.set()
    sys.path.remove(str(rules))


def begin(folder: Path, timeout: float) -> Control:
    control = start_control(folder, more=MORE.format(folder=folder / "rules", timeout=timeout))
    control.add_flavor()
    return control


def status(control: Control, uuid: str) -> str:
    answer = control.admin.get(f"/servers/{uuid}")
    return str(answer.body["server"]["status"]) if answer.status == 200 else str(answer.status)


def test_while_a_driver_hangs_everything_else_goes_on(folder: Path) -> None:
    control = begin(folder, 2.0)
    uuid = control.boot()["id"]
    hanging = [control.ask(hints={"hang": "yes"}).body["server"]["id"] for _ in range(6)]
    assert control.member.delete(f"/servers/{uuid}").status == 204
    quick = control.ask().body["server"]["id"]
    wait_until(lambda: (status(control, uuid), status(control, quick)) == ("404", "ACTIVE"), "the others go on")
    assert [status(control, each) for each in hanging] == ["BUILD"] * 6
    control.settle()
    for each in hanging:
        shown = control.admin.get(f"/servers/{each}").body["server"]
        assert shown["status"] == "ERROR"
        assert shown["fault"]["message"] == "Scheduler driver Hanging did not answer within 2 s."
    assert sorted(control.check().values()) == ["active", *["error"] * 6]
    control.process.close()


def test_a_process_stops_while_a_driver_hangs_and_the_next_one_asks_again(folder: Path) -> None:
    control = begin(folder, 60)
    uuid = control.ask(hints={"hang": "yes"}).body["server"]["id"]
    while "hanging" not in sys.modules or not control.process.claimer._driver._calls:  # type: ignore[union-attr]
        time.sleep(0.01)
    began = time.monotonic()
    control.process.close()
    assert time.monotonic() - began < 10
    sys.modules["hanging"].RELEASE.set()
    again = start_control(folder, more=MORE.format(folder=folder / "rules", timeout=60))
    again.settle()
    assert status(again, uuid) == "ACTIVE"
    again.process.close()
