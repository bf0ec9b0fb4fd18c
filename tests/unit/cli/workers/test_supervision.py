# SPDX-License-Identifier: Apache-2.0
"""Workers that end are replaced; the state of each is a fake that the test changes."""

from collections.abc import Collection

import pytest

from kilonova.cli.workers.supervision import CannotServeError, Ending, RestartLimits, Supervision

KILLED, WRONG = Ending(None, "was killed by SIGKILL"), Ending(2, "ended with exit status 2")


class FakeWorker:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ready = False
        self.end: Ending | None = None
        self.told: list[set[int]] = []

    def is_ready(self) -> bool:
        return self.ready

    def has_ended(self) -> bool:
        return self.end is not None

    def accept_from(self, numbers: Collection[int]) -> None:
        self.told.append(set(numbers))

    def ending(self) -> Ending:
        assert self.end is not None
        return self.end


class World:
    """The started workers by number, each list in the order of the starts, and a clock that the test moves."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.started: dict[int, list[FakeWorker]] = {number: [] for number in range(1, count + 1)}
        self.cannot_fork = False
        self.supervision = Supervision(count, self.start, RestartLimits(), lambda: self.now)

    def start(self, number: int) -> FakeWorker:
        if self.cannot_fork:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.started[number].append(FakeWorker(100 * number + len(self.started[number])))
        return self.started[number][-1]

    def present(self, number: int) -> FakeWorker:
        return self.started[number][-1]

    def step(self) -> float | None:
        return self.supervision.step()

    def serve(self) -> "World":
        """Start all workers, and let them report that they serve."""
        self.step()
        for number in self.started:
            self.present(number).ready = True
        self.step()
        return self

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


def test_all_workers_start_at_once_and_then_only_an_end_is_waited_for() -> None:
    world = World(3)
    assert world.step() is None
    assert [len(started) for started in world.started.values()] == [1, 1, 1]
    assert world.step() is None
    assert sorted(world.supervision.running) == [1, 2, 3]
    assert not world.supervision.serving


def test_a_worker_that_serves_accepts_for_those_that_do_not() -> None:
    world = World(3)
    world.step()
    world.present(2).ready = True
    world.step()
    assert world.present(2).told == [{1, 3}]
    world.present(1).ready = world.present(3).ready = True
    world.step()
    assert [world.present(number).told for number in (1, 2, 3)] == [[set()], [{1, 3}, set()], [set()]]
    world.step()  # a message is sent once
    world.present(1).end = KILLED
    world.step()
    assert [world.present(number).told[-1] for number in (2, 3)] == [{1}, {1}]
    world.present(1).ready = True
    world.step()
    assert [world.present(number).told[-1] for number in (1, 2, 3)] == [set(), set(), set()]


def test_a_killed_worker_is_replaced_at_once_and_then_after_pauses_that_grow() -> None:
    world = World(2).serve()
    pauses = []
    for _ in range(8):
        world.present(1).end = KILLED
        pauses.append(world.step())
        before = len(world.started[1])
        if pauses[-1] is not None:
            world.pass_time(pauses[-1] - 0.5)
            world.step()
            assert len(world.started[1]) == before
            world.pass_time(0.5)
            world.step()
            assert len(world.started[1]) == before + 1
        world.present(1).ready = True
        world.step()
    assert pauses == [None, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    world.pass_time(60.0)
    world.present(1).end = KILLED
    assert world.step() is None  # it had served for a minute
    assert len(world.started[2]) == 1


def test_a_worker_that_was_told_to_end_is_replaced_too() -> None:
    world = World(2).serve()
    world.present(2).end = Ending(0, "ended with exit status 0")
    world.step()
    assert len(world.started[2]) == 2


def test_an_error_at_the_first_start_ends_all() -> None:
    world = World(2)
    world.step()
    world.present(1).ready = True
    world.step()
    world.present(2).end = WRONG
    with pytest.raises(CannotServeError) as raised:
        world.step()
    assert (raised.value.number, raised.value.ending) == (2, WRONG)


@pytest.mark.parametrize("end", [KILLED, WRONG])
def test_a_replacement_that_cannot_start_is_tried_for_as_long_as_another_worker_serves(end: Ending) -> None:
    world = World(2).serve()
    for _ in range(20):
        world.present(2).end = end
        world.pass_time(world.step() or 0.0)
        world.step()
    assert len(world.started[2]) == 21
    assert world.present(1).told[-1] == {2}


def test_when_no_worker_serves_five_failed_starts_end_all() -> None:
    world = World(2).serve()
    world.present(1).end = world.present(2).end = KILLED
    world.step()
    with pytest.raises(CannotServeError) as raised:
        for _ in range(20):
            for number in (1, 2):
                world.present(number).end = WRONG
            world.pass_time(world.step() or 0.0)
            world.step()
    assert raised.value.ending == WRONG
    failed = [started.end for workers in world.started.values() for started in workers].count(WRONG)
    assert failed == 6  # the sixth had failed, too, when the fifth was found


def test_a_machine_without_room_for_a_process_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2).serve()
    world.cannot_fork = True
    world.present(1).end = KILLED
    assert world.step() == 1.0
    world.pass_time(1.0)
    assert world.step() == 2.0
    assert "Worker 1 cannot be started: Resource temporarily unavailable; next try in 2 s" in caplog.text
    world.cannot_fork = False
    world.pass_time(2.0)
    assert world.step() is None
    assert len(world.started[1]) == 2


def test_each_change_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World(2).serve()
    world.present(2).end = KILLED
    world.step()
    assert [record.message for record in caplog.records] == [
        "Worker 1 (pid 100) serves",
        "Worker 2 (pid 200) serves",
        "Worker 2 (pid 200) was killed by SIGKILL; starting another one in 0 s",
    ]
