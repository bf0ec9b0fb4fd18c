# SPDX-License-Identifier: Apache-2.0
"""Restarts of the parts of a cloud, with fake processes and a fake clock; tests/e2e kills those of real clouds."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kilonova.cli.up.children import Child, Watched, stop
from kilonova.cli.up.supervision import RestartLimits, Supervision
from kilonova.errors import Unavailable

LIMITS = RestartLimits(
    first_pause_s=1,
    longest_pause_s=8,
    stable_s=60,
    start_timeout_s=20,
    most_failed_starts=4,
    longest_outage_s=1000,
)


@dataclass
class FakeClock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class FakePart:
    """A process of a cloud. ``fates``: of its restarts, in order; the default is to become ready."""

    name: str
    clock: FakeClock
    fates: list[str] = field(default_factory=list)
    log: Path = Path("/data/log/part.log")
    pidfd: int = -1
    runs: bool = True
    is_ready: bool = True
    restarted_at: list[float] = field(default_factory=list)

    def ended(self) -> bool:
        return not self.runs

    def answers(self) -> bool:
        return self.runs and self.is_ready

    def ending(self) -> str:
        return "was killed by SIGKILL"

    def obituary(self) -> str:
        raise AssertionError("only a first start needs it")

    def kill(self) -> None:
        self.runs = False

    def restart(self) -> None:
        assert not self.runs
        self.restarted_at.append(self.clock.seconds)
        fate = self.fates.pop(0) if self.fates else "ready"
        if fate == "no process":
            raise OSError(11, "Resource temporarily unavailable")
        self.runs = fate != "ends"
        self.is_ready = fate == "ready"


@dataclass
class Cloud:
    """A supervision of fake parts, driven by hand."""

    clock: FakeClock
    parts: Sequence[FakePart]
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.supervision = Supervision(self.parts, self.said.append, LIMITS, self.clock)

    def run(self, seconds: float) -> None:
        """Pass time, in the steps that the supervision wants."""
        end = self.clock.seconds + seconds
        while True:
            pause = self.supervision.step()
            if pause is None or self.clock.seconds + pause > end:
                self.clock.seconds = end
                return
            assert pause >= 0
            self.clock.seconds += max(pause, 0.001)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def cloud_of(clock: FakeClock, *fates: str) -> tuple[Cloud, FakePart]:
    part = FakePart("agent1", clock, fates=list(fates))
    return Cloud(clock, [part, FakePart("control", clock)]), part


def test_parts_that_run_need_no_attention(clock: FakeClock) -> None:
    cloud, _ = cloud_of(clock)
    assert cloud.supervision.step() is None
    assert cloud.said == []


def test_a_killed_part_is_started_again_after_a_pause_and_one_line_says_so(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock)
    agent.runs = False
    assert cloud.supervision.step() == 1
    cloud.run(5)
    assert agent.restarted_at == [1001]
    assert cloud.parts[1].restarted_at == []
    assert cloud.said == ["agent1 was killed by SIGKILL; starting it again in 1 s, log in /data/log/part.log"]
    assert cloud.supervision.step() is None


def test_pauses_grow_up_to_a_limit_while_a_part_runs_for_short_times_only(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock)
    pauses = []
    for _ in range(6):
        agent.runs = False
        ended = clock.seconds
        cloud.run(10)
        pauses.append(agent.restarted_at[-1] - ended)
    assert pauses == pytest.approx([1, 2, 4, 8, 8, 8])
    assert len(cloud.said) == 6


def test_a_part_that_was_ready_for_a_while_starts_with_the_first_pause_again(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock)
    for _ in range(3):
        agent.runs = False
        cloud.run(10)
    cloud.run(LIMITS.stable_s)
    agent.runs = False
    assert cloud.supervision.step() == 1


def test_a_part_that_comes_and_goes_never_ends_the_cloud(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock)
    for _ in range(50):
        agent.runs = False
        cloud.run(10)
    assert len(agent.restarted_at) == 50


@pytest.mark.parametrize(
    ("fate", "how"),
    [
        ("ends", "the last one was killed by SIGKILL"),
        ("no process", "the last one failed: [Errno 11] Resource temporarily unavailable"),
        ("hangs", "the last one was not ready after 20 s"),
    ],
)
def test_a_part_that_cannot_be_started_ends_the_cloud_with_one_line(clock: FakeClock, fate: str, how: str) -> None:
    cloud, agent = cloud_of(clock, *[fate] * 9)
    agent.runs = False
    with pytest.raises(Unavailable) as failure:
        cloud.run(1000)
    assert str(failure.value) == f"agent1 cannot be started again: 4 starts in a row failed; {how}; see {agent.log}"
    assert len(agent.restarted_at) == 4
    assert len(cloud.said) == 4


def test_failures_in_a_row_count_only(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock, *(["ends", "no process", "hangs", "ready"] * 3))
    for _ in range(3):
        agent.runs = False
        cloud.run(200)
        assert agent.runs
    assert len(agent.restarted_at) == 12


def test_a_part_is_given_up_after_a_time_too(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock, *["hangs"] * 9)
    limits = RestartLimits(1, 8, 60, start_timeout_s=20, most_failed_starts=100, longest_outage_s=50)
    cloud.supervision = Supervision(cloud.parts, cloud.said.append, limits, clock)
    agent.runs = False
    with pytest.raises(Unavailable, match=r"agent1 cannot be started again: 3 starts in a row failed; "):
        cloud.run(1000)
    assert clock.seconds == pytest.approx(1000 + 3 * 20 + 1 + 2 + 4, abs=1)


def test_two_parts_are_started_again_independently(clock: FakeClock) -> None:
    cloud, agent = cloud_of(clock)
    control = cloud.parts[1]
    agent.runs = False
    cloud.run(0.5)
    control.runs = False
    cloud.run(5)
    assert [*agent.restarted_at, *control.restarted_at] == pytest.approx([1001, 1001.5])


class StopError(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture
def handler() -> Iterator[None]:
    def stop_now(*_: object) -> None:
        raise StopError

    previous = signal.signal(signal.SIGUSR1, stop_now)
    yield
    signal.signal(signal.SIGUSR1, previous)


@pytest.mark.usefixtures("handler")
def test_a_signal_ends_the_wait_for_a_pause_at_once(clock: FakeClock) -> None:
    agent = FakePart("agent1", clock, runs=False)  # the clock stands still, so the pause never ends
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    with pytest.raises(StopError):
        Supervision([agent], print, LIMITS, clock).run()
    timer.join()
    assert agent.restarted_at == []


class OneOfMany(Child):
    """A child that is ready as soon as it runs, and then is killed until it has had ``lives``."""

    lives = 3

    def answers(self) -> bool:
        if not self.ended() and self.lives > 0:
            self.lives -= 1
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False


def test_real_processes_keep_their_log_and_none_is_left(tmp_path: Path) -> None:
    program = "import os, sys, time; print('life of', os.getpid(), flush=True); time.sleep(1000)"
    command = (sys.executable, "-c", program)
    part = OneOfMany("worker", command, tmp_path / "w.log", "http://127.0.0.1:1/", tmp_path)
    pids = [part.pid]
    said: list[str] = []
    limits = RestartLimits(0.01, 0.1, 60, start_timeout_s=0.5, most_failed_starts=2, longest_outage_s=60)

    def say(text: str) -> None:
        said.append(text)
        pids.append(part.pid)

    children: list[Watched] = [part]
    os.kill(part.pid, signal.SIGKILL)
    try:
        with pytest.raises(Unavailable, match="worker cannot be started again: 2 starts in a row failed"):
            Supervision(children, say, limits).run()
    finally:
        stop([part])
    assert said[0] == f"worker was killed by SIGKILL; starting it again in 0.01 s, log in {part.log}"
    assert said[-1] == f"worker was not ready after 0.5 s; starting it again in 0.1 s, log in {part.log}"
    assert "life of" in part.log.read_text()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
