# SPDX-License-Identifier: Apache-2.0
"""Live migrations between simulated hosts: abort and force complete at every moment, repetitions, kills."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.virt.abilities import CopyProgress, MigrationMonitor
from kilonova.compute.virt.base import AgentStopsError
from kilonova.compute.virt.fake import FakeDriver
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AbortLiveMigration,
    ForceCompleteLiveMigration,
    HostsRegistered,
    LiveMigrate,
    MigrationProgress,
    ReturnHome,
    StepId,
    StepReply,
    StepState,
    StopGuest,
)
from kilonova.messaging.thread_pools import AgentPool
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.instance import PowerState
from kilonova.scenario.model import SimulatedHost
from support.one_host import OneHost, guest, host_with_guest, new_step
from support.waiting import wait_until

RUNNING, PAUSED, SHUTDOWN = PowerState.RUNNING, PowerState.PAUSED, PowerState.SHUTDOWN
ABORTED = "The live migration was aborted."


def migrate(workflow: str = "w") -> LiveMigrate:
    return LiveMigrate(new_step(workflow), "a", "node2")


# --- abort and force complete -----------------------------------------------------------------------------------------


class Told:
    """A monitor that does something each time it is told of progress, which is first when the copying begins."""

    def __init__(
        self,
        monitor: MigrationMonitor,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self._monitor, self._before, self._after = monitor, before, after

    @property
    def abort_requested(self) -> bool:
        return self._monitor.abort_requested

    @property
    def completion_forced(self) -> bool:
        return self._monitor.completion_forced

    def report(self, progress: CopyProgress) -> None:
        self._before()
        self._monitor.report(progress)
        self._after()

    def wait(self, seconds: float) -> None:
        self._monitor.wait(seconds)


class Copying(FakeDriver):
    """Does something when the copying of a guest begins, on the thread that copies."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        return super().live_migrate(uuid, destination, Told(monitor, before=self.meanwhile))


class Copied(FakeDriver):
    """Does something when a guest has been handed over and the reply is not yet sent."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        state = super().live_migrate(uuid, destination, monitor)
        self.meanwhile()
        return state


def urgently(host: OneHost, message: AbortLiveMigration | ForceCompleteLiveMigration) -> Callable[[], object]:
    """Send a message and have it handled, though something else is under way."""

    def send() -> None:
        host.send(message)
        assert host.bus.step()

    return send


def test_an_abort_while_it_copies(tmp_path: Path) -> None:
    host = host_with_guest(tmp_path, driver=Copying, live_migration_s=20)
    order = migrate()
    host.driver.meanwhile = urgently(host, AbortLiveMigration(order.step, "a"))  # type: ignore[attr-defined]
    reply = host.do(order)
    assert (reply.error, reply.aborted, reply.power_state) == (ABORTED, True, RUNNING)
    assert host.driver.list_guests() == {"a": RUNNING}
    assert [told.step for told in host.replies[1:]] == [order.step], "an abort has no reply of its own"
    assert host.ask(order.step).reply == reply


def test_an_abort_when_everything_is_copied_has_no_effect(tmp_path: Path) -> None:
    host = host_with_guest(tmp_path, driver=Copied)
    order = migrate()
    host.driver.meanwhile = urgently(host, AbortLiveMigration(order.step, "a"))  # type: ignore[attr-defined]
    reply = host.do(order)
    assert (reply.error, reply.aborted, reply.power_state) == (None, False, RUNNING)
    assert host.driver.list_guests() == {"a": SHUTDOWN}


@pytest.mark.parametrize("waits", [True, False])
def test_an_abort_before_it_begins(tmp_path: Path, waits: bool) -> None:
    host = host_with_guest(tmp_path)
    order = migrate()
    stop = StopGuest(new_step(), "a")
    host.send(stop)
    if waits:
        host.send(order)
    host.send(AbortLiveMigration(StepId("w", "another", 9), "a"))
    host.bus.run()
    if not waits:
        host.send(order)
        host.bus.run()
    assert [told.step for told in host.replies[1:]] == [stop.step, order.step]
    assert (host.replies[-1].error, host.replies[-1].aborted) == (ABORTED, True)


def test_an_abort_of_one_migration_is_not_that_of_another(tmp_path: Path) -> None:
    host = host_with_guest(tmp_path, driver=Copying)
    host.driver.meanwhile = urgently(host, AbortLiveMigration(new_step("earlier"), "a"))  # type: ignore[attr-defined]
    assert host.do(migrate("later")).error is None


def test_force_complete_ends_it_at_once(tmp_path: Path) -> None:
    host = host_with_guest(tmp_path, driver=Copying, live_migration_s=20)
    order = ForceCompleteLiveMigration(new_step("force"), "a")
    host.send(order)
    host.bus.run()  # nothing runs: no effect, also not on what comes later
    host.driver.meanwhile = urgently(host, order)  # type: ignore[attr-defined]
    assert host.do(migrate()).error is None
    assert host.driver.list_guests() == {"a": SHUTDOWN}


def test_how_far_it_is_is_told_while_it_copies(tmp_path: Path) -> None:
    host = host_with_guest(tmp_path, live_migration_s=1.1)
    order = migrate()
    host.do(order)
    mib, gib = 1 << 20, 1 << 30
    first, second = host.told_of(MigrationProgress)
    assert first == MigrationProgress(order.step, "node1", "a", 512 * mib, 0, 512 * mib, gib, 0, gib)
    assert second.memory_processed_bytes == int(512 * mib / 1.1)
    assert second.memory_processed_bytes + second.memory_remaining_bytes == second.memory_total_bytes
    assert second.disk_processed_bytes + second.disk_remaining_bytes == second.disk_total_bytes


def test_progress_that_cannot_be_told_does_not_stop_a_migration(tmp_path: Path) -> None:
    def refuse(what: str) -> None:
        if "MigrationProgress" in what:
            raise RuntimeError("closed")

    assert host_with_guest(tmp_path, event=refuse).do(migrate()).error is None


@pytest.mark.parametrize("aborted", [True, False])
def test_a_migration_that_takes_long_is_asked_for_aborted_and_stopped_from_other_threads(
    tmp_path: Path, aborted: bool
) -> None:
    host = host_with_guest(tmp_path, live_migration_s=20)
    order = migrate()
    work = host.agent.accept(order)
    assert work is not None
    assert work.pool is AgentPool.MOVE
    thread = threading.Thread(target=work.run)
    thread.start()
    wait_until(lambda: host.agent._migrations._running, "the migration runs")
    assert host.agent._steps.status("node1", "a", order.step).state is StepState.RUNNING
    if aborted:
        interrupt = host.agent.accept(AbortLiveMigration(order.step, "a"))
        assert interrupt is not None
        interrupt.run()
    else:
        host.agent.stop()
    thread.join(10)
    assert not thread.is_alive()
    host.bus.run()
    assert [told.aborted for told in host.told_of(StepReply)[1:]] == [True] * aborted
    state = StepState.DONE if aborted else StepState.UNKNOWN
    assert host.agent._steps.status("node1", "a", order.step).state is state
    assert host.driver.list_guests() == {"a": RUNNING}
    assert host.agent._waiting == {}
    if not aborted:
        assert not host.agent.accept(migrate("next")).run()  # type: ignore[union-attr]
        assert host.driver.list_guests() == {"a": RUNNING}, "an agent that stops begins no migration"


def test_a_kill_while_it_copies_leaves_it_as_if_it_had_not_begun(tmp_path: Path) -> None:
    class Killed(FakeDriver):
        def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
            return super().live_migrate(uuid, destination, Told(monitor, after=ends))

    def ends() -> None:
        raise AgentStopsError

    order = migrate()
    host = host_with_guest(tmp_path, driver=Killed)
    host.send(order)
    host.bus.run()
    again = OneHost(tmp_path)
    assert again.ask(order.step).state is StepState.UNKNOWN
    assert again.driver.list_guests() == {"a": RUNNING}
    assert again.do(order).power_state is RUNNING


def test_a_kill_after_it_was_handed_over_lets_the_next_agent_say_so(tmp_path: Path) -> None:
    order = migrate()
    host_with_guest(tmp_path).do(order)
    again = OneHost(tmp_path)
    assert again.ask(order.step).state is StepState.UNKNOWN
    assert again.do(order).power_state is RUNNING
    assert again.driver.list_guests() == {"a": SHUTDOWN}
    assert again.do(ReturnHome(new_step(), guest(), power_on=True)).power_state is RUNNING


def test_many_migrations_race_their_aborts_and_each_has_one_end(tmp_path: Path) -> None:
    bus = LocalBus()
    told: list[StepReply] = []
    bus.serve_conductor(
        lambda message: told.append(message) if isinstance(message, StepReply) else None, lambda *_: HostsRegistered()
    )
    driver = FakeDriver(SimulatedHost("node1", live_migration_s=0.03), tmp_path / "n.json", AllocationRatios())
    bus.serve_agent("node1", Agent("node1", driver, bus).accept)
    orders = [LiveMigrate(StepId(f"w{n}", "copy", 1), f"guest-{n}", "node2") for n in range(128)]
    for order in orders:
        driver.spawn(guest(order.instance_uuid))
    rng = random.Random(1)
    for order in orders:
        bus.cast("node1", order)
    for order in rng.sample(orders, 100):
        bus.cast("node1", AbortLiveMigration(order.step, order.instance_uuid))
        time.sleep(rng.choice([0, 0.001]))
    wait_until(lambda: len(told) == len(orders), "every migration is answered")
    bus.close()
    stayed = {reply.instance_uuid for reply in told if reply.aborted}
    left = {reply.instance_uuid for reply in told if reply.error is None}
    assert len(stayed) > 1
    assert len(left) > 1
    assert (stayed | left, stayed & left) == ({order.instance_uuid for order in orders}, set())
    assert {uuid for uuid, state in driver.list_guests().items() if state is RUNNING} == stayed
    assert {uuid for uuid, state in driver.list_guests().items() if state is SHUTDOWN} == left
