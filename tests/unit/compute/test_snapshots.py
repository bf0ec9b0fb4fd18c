# SPDX-License-Identifier: Apache-2.0
"""How many snapshots a host works on at once, and how they are given up."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kilonova.compute.snapshots import Snapshots
from kilonova.compute.virt.base import AgentStopsError
from kilonova.compute.virt.fake.driver import FakeDriver
from kilonova.errors import SnapshotCancelled
from kilonova.messaging.messages import CancelSnapshot, SnapshotGuest, StepId
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image_data import ImageData
from kilonova.scenario.model import SimulatedHost

PATIENCE_S = 10


def order(workflow: str) -> SnapshotGuest:
    return SnapshotGuest(StepId(workflow, "snapshot", 1), f"guest of {workflow}", "image")


def cancel(workflow: str) -> CancelSnapshot:
    return CancelSnapshot(StepId(workflow, "snapshot", 1), f"guest of {workflow}")


@pytest.mark.parametrize(("limit", "at_once"), [(2, 2), (0, 6)])
def test_so_many_run_at_once(limit: int, at_once: int) -> None:
    snapshots, running, most = Snapshots(limit), set[int](), [0]
    lock, all_there = threading.Lock(), threading.Event()

    def run(number: int) -> None:
        with snapshots.run(order(str(number))):
            with lock:
                running.add(number)
                most[0] = max(most[0], len(running))
                if len(running) == at_once:
                    all_there.set()
            all_there.wait(PATIENCE_S)
            with lock:
                running.discard(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    assert most[0] == at_once


def test_what_waits_for_its_turn_can_be_given_up() -> None:
    snapshots = Snapshots(1)
    with ThreadPoolExecutor(1) as pool, snapshots.run(order("first")) as first:

        def wait() -> None:
            with snapshots.run(order("second")):
                raise AssertionError("it has had its turn")

        waiting = pool.submit(wait)
        snapshots.cancel(cancel("second"))
        with pytest.raises(SnapshotCancelled):
            waiting.result(PATIENCE_S)
        first.check()
        snapshots.cancel(cancel("first"))
        with pytest.raises(SnapshotCancelled):
            first.check()
    with snapshots.run(order("third")) as third:
        third.check()


def test_one_that_was_given_up_before_it_came_does_not_begin() -> None:
    snapshots = Snapshots()
    snapshots.cancel(cancel("late"))
    with pytest.raises(SnapshotCancelled), snapshots.run(order("late")):
        raise AssertionError("it has begun")


def test_when_the_agent_ends_all_are_left_as_they_are() -> None:
    snapshots = Snapshots()
    with snapshots.run(order("one")) as work:
        snapshots.stop()
        with pytest.raises(AgentStopsError):
            work.check()
    with pytest.raises(AgentStopsError), snapshots.run(order("two")):
        raise AssertionError("it has begun")


def test_an_upload_that_was_killed_at_its_end_leaves_no_copy(tmp_path: Path) -> None:
    driver = FakeDriver(SimulatedHost("node1"), tmp_path / "node1.json", AllocationRatios())
    copies = tmp_path / "disks" / "node1" / "copies"
    copies.mkdir(parents=True)
    for name in ("a.one", "a.one.brought"):
        (copies / name).touch()
    driver.upload_snapshot("a", ImageData("one"), NeverCancelled())
    assert [file.name for file in copies.iterdir()] == ["a.one.brought"]


class NeverCancelled:
    """A monitor of a snapshot that goes on."""

    def check(self) -> None:
        """Go on."""
