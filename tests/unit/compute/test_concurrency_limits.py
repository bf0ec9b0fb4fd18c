# SPDX-License-Identifier: Apache-2.0
"""max_concurrent_builds and max_concurrent_live_migrations: what waits, in which order, and how it is called off."""

from pathlib import Path

import pytest

from kilonova.compute.concurrency_limits import ConcurrencyLimit, HostLimits
from kilonova.messaging.messages import (
    AbortLiveMigration,
    DestroyGuest,
    LiveMigrate,
    SpawnGuest,
    StartGuest,
    StepState,
)
from kilonova.messaging.thread_pools import AgentPool
from support.one_host import OneHost, guest, new_step


def spawn(uuid: str) -> SpawnGuest:
    return SpawnGuest(new_step(), guest(uuid))


@pytest.mark.parametrize(("limit", "at_once"), [(0, 7), (1, 1), (3, 3), (10, 7)])
def test_so_many_builds_run_at_a_time(tmp_path: Path, limit: int, at_once: int) -> None:
    host = OneHost(tmp_path, limits=HostLimits(builds=limit))
    works = [host.agent.accept(spawn(f"g{number}")) for number in range(7)]
    running = [work for work in works if work is not None]
    assert len(running) == at_once
    done: list[str] = []
    while running:
        running += running.pop(0).run() or ()
        assert len(running) <= at_once
        host.bus.run()
        done.append(host.replies[-1].instance_uuid)
    assert done == [f"g{number}" for number in range(7)], "first come, first served"
    assert len(host.driver.list_guests()) == 7


def test_what_has_no_limit_does_not_wait_behind_what_has(tmp_path: Path) -> None:
    host = OneHost(tmp_path, limits=HostLimits(builds=1))
    host.do(spawn("there"))
    assert host.agent.accept(spawn("first")) is not None
    assert host.agent.accept(spawn("second")) is None
    assert host.agent.accept(StartGuest(new_step(), "there")) is not None


def test_a_build_that_fails_makes_room_for_the_next(tmp_path: Path) -> None:
    host = OneHost(tmp_path, limits=HostLimits(builds=1), failing_spawns=1)
    for uuid in ("bad", "good"):
        host.send(spawn(uuid))
    host.bus.run()
    assert [(reply.instance_uuid, reply.error is None) for reply in host.replies] == [("bad", False), ("good", True)]


def test_a_build_that_waits_is_called_off_by_its_own_undo(tmp_path: Path) -> None:
    host = OneHost(tmp_path, limits=HostLimits(builds=1))
    first = host.agent.accept(spawn("first"))
    assert first is not None
    waits = SpawnGuest(new_step("build"), guest("second"))
    host.send(waits)
    assert host.ask(waits.step, "second").state is StepState.RUNNING
    host.send(DestroyGuest(new_step("build"), "second"))
    host.bus.run()
    assert [reply.error is None for reply in host.replies] == [False, True]
    assert host.driver.list_guests() == {}, "it was never made, although the first still has its turn"
    first.run()
    host.bus.run()
    assert set(host.driver.list_guests()) == {"first"}


def test_a_queued_live_migration_is_aborted_at_once(tmp_path: Path) -> None:
    host = OneHost(tmp_path, limits=HostLimits(live_migrations=1))
    for uuid in ("first", "second", "third"):
        host.do(spawn(uuid))
    orders = {uuid: LiveMigrate(new_step(f"move {uuid}"), uuid, "node2") for uuid in ("first", "second", "third")}
    first = host.agent.accept(orders["first"])
    assert first is not None
    assert first.pool is AgentPool.MOVE
    assert host.agent.accept(orders["second"]) is None
    assert host.agent.accept(orders["third"]) is None
    host.send(AbortLiveMigration(orders["second"].step, "second"))
    host.bus.run()
    reply = host.replies[-1]
    assert (reply.instance_uuid, reply.aborted, reply.error) == ("second", True, "The live migration was aborted.")
    (third,) = first.run() or ()
    third.run()
    host.bus.run()
    assert [reply.instance_uuid for reply in host.replies][-2:] == ["first", "third"]


def test_who_was_called_off_makes_no_room() -> None:
    turnstile: ConcurrencyLimit[str] = ConcurrencyLimit(HostLimits(builds=1))
    assert turnstile.enter(SpawnGuest, "a")
    assert not turnstile.enter(SpawnGuest, "b")
    assert not turnstile.enter(SpawnGuest, "c")
    assert turnstile.call_off(lambda each: each == "b") == "b"
    assert turnstile.call_off(lambda each: each == "b") is None
    assert turnstile.leave(SpawnGuest, "b") is None
    assert turnstile.leave(SpawnGuest, "a") == "c"
    assert turnstile.leave(SpawnGuest, "c") is None
