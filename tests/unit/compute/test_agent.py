# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.sessions import start_agents
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.messaging.bus import Sender
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AbortLiveMigration,
    Answer,
    AskStep,
    DestroyGuest,
    HostsRegistered,
    HostsStarted,
    LiveMigrate,
    MoveAway,
    Question,
    RebootGuest,
    ReturnHome,
    SpawnGuest,
    StartGuest,
    StepReply,
    StopGuest,
)
from kilonova.model.ability import Ability
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.instance import GuestSpec, PowerState
from support.cell import PLAIN, host
from support.manual_bus import ManualBus
from support.one_host import OneHost, guest, new_step
from support.waiting import wait_until


def fake(tmp_path: Path, name: str = "node1", **facts: Any) -> FakeDriver:
    return FakeDriver(host(name, **facts), tmp_path / f"{name}.json", PLAIN)


class Replies:
    """The conductor's end."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def handle(self, message: Any) -> None:
        self.got.append(message)

    def answer(self, question: Question, _speaker: Sender) -> Answer:
        assert isinstance(question, HostsStarted)
        now, found = datetime.now(UTC).replace(tzinfo=None), question.guests.items()
        return HostsRegistered(
            {host: tuple(Removal(uuid, RemovalReason.LEFT, now) for uuid in guests) for host, guests in found}
        )


def test_messages_of_one_instance_keep_their_order_and_others_do_not_wait(tmp_path: Path) -> None:
    order: dict[str, list[str]] = defaultdict(list)
    running: dict[str, int] = defaultdict(int)
    most = [0]
    lock = threading.Lock()

    class Slow(FakeDriver):
        def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
            del timeout
            self._note(uuid, "stop")

        def start(self, uuid: str) -> None:
            self._note(uuid, "start")

        def _note(self, uuid: str, what: str) -> None:
            with lock:
                running[uuid] += 1
                assert running[uuid] == 1, "two messages of one instance at once"
                most[0] = max(most[0], sum(running.values()))
            time.sleep(0.005)
            with lock:
                order[uuid].append(what)
                running[uuid] -= 1

    bus, replies = LocalBus(), Replies()
    bus.serve_conductor(replies.handle, replies.answer)
    agent = Agent("node1", Slow(host("node1"), tmp_path / "n.json", PLAIN), bus)
    bus.serve_agent("node1", agent.accept)
    for _ in range(10):
        for uuid in ("a", "b", "c"):
            bus.cast("node1", StopGuest(new_step(), uuid))
            bus.cast("node1", StartGuest(new_step(), uuid))
    wait_until(lambda: len(replies.got) == 60, "every message is answered")
    bus.close()
    assert order == dict.fromkeys("abc", ["stop", "start"] * 10)
    assert most[0] > 1
    assert agent._waiting == {}


def test_every_message_is_answered_with_what_came_of_it(tmp_path: Path) -> None:
    bus, replies = ManualBus(), Replies()
    bus.serve_conductor(replies.handle, replies.answer)
    driver = fake(tmp_path)
    bus.serve_agent("node1", Agent("node1", driver, bus).accept)
    messages = (
        SpawnGuest(new_step(), guest("a")),
        StopGuest(new_step(), "a"),
        StartGuest(new_step(), "a"),
        RebootGuest(new_step(), "a", hard=True),
        DestroyGuest(new_step(), "a"),
        DestroyGuest(new_step(), "a"),
    )
    for message in messages:
        bus.cast("node1", message)
        bus.run()
    states = [PowerState.RUNNING, PowerState.SHUTDOWN, PowerState.RUNNING, PowerState.RUNNING, 0, 0]
    assert [message for message in replies.got if isinstance(message, StepReply)] == [
        StepReply(message.step, "node1", "a", power_state=PowerState(state))
        for message, state in zip(messages, states, strict=True)
    ]
    last = StartGuest(new_step(), "a")
    bus.cast("node1", last)
    bus.run()
    assert replies.got[-1] == StepReply(last.step, "node1", "a", "Guest a does not exist.")


def test_a_bus_that_refuses_a_reply_does_not_block_the_instance(tmp_path: Path) -> None:
    refusals = [1]

    class Refusing(ManualBus):
        def tell(self, message: Any, *, urgent: bool = False) -> None:
            if refusals:
                refusals.pop()
                raise RuntimeError("closed")
            super().tell(message, urgent=urgent)

    bus, replies = Refusing(), Replies()
    bus.serve_conductor(replies.handle, replies.answer)
    agent = Agent("node1", fake(tmp_path), bus)
    bus.serve_agent("node1", agent.accept)
    bus.cast("node1", SpawnGuest(new_step(), guest("a")))
    bus.run()
    bus.cast("node1", StopGuest(new_step(), "a"))
    bus.run()
    assert [reply.power_state for reply in replies.got] == [PowerState.SHUTDOWN]


def test_starting_agents_destroy_what_belongs_to_nobody(tmp_path: Path) -> None:
    driver = fake(tmp_path)
    driver.spawn(guest("a"))
    bus, replies = ManualBus(), Replies()
    bus.serve_conductor(replies.handle, replies.answer)
    start_agents([Agent("node1", driver, bus)], bus)
    assert driver.list_guests() == {}


def test_a_simulated_hypervisor_outlives_its_agent(tmp_path: Path) -> None:
    driver = fake(tmp_path)
    for uuid in ("a", "b"):
        driver.spawn(guest(uuid))
    driver.stop("b")
    driver.spawn(guest("b"))
    again = fake(tmp_path)
    assert again.list_guests() == {"a": PowerState.RUNNING, "b": PowerState.SHUTDOWN}
    again.destroy("a")
    again.destroy("a")
    assert fake(tmp_path).list_guests() == {"b": PowerState.SHUTDOWN}


def test_failing_spawns_are_counted_and_leave_nothing(tmp_path: Path) -> None:
    driver = fake(tmp_path, failing_spawns=2)
    outcomes = []
    for _ in range(3):
        try:
            driver.spawn(guest("a"))
        except DriverError as error:
            outcomes.append(error.message)
        else:
            outcomes.append("")
    assert [bool(message) for message in outcomes] == [True, True, False]
    assert all("node1" not in message for message in outcomes)


def test_spawning_side_by_side_loses_no_guest(tmp_path: Path) -> None:
    driver = fake(tmp_path)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: driver.spawn(guest(str(n))), range(100)))
    assert len(fake(tmp_path).list_guests()) == 100


def test_delays_are_slept_not_counted(tmp_path: Path) -> None:
    slept: list[float] = []
    driver = FakeDriver(
        host("node1", spawn_delay_s=3, destroy_delay_s=2), tmp_path / "n.json", PLAIN, sleep=slept.append
    )
    driver.spawn(guest("a"))
    driver.destroy("a")
    assert slept == [3, 2]


def test_every_hypervisor_is_announced_as_one_of_this_service(tmp_path: Path) -> None:
    announced: list[HostsStarted] = []

    class Bus(ManualBus):
        def ask(self, question: Question) -> Answer:
            assert isinstance(question, HostsStarted)
            announced.append(question)
            return HostsRegistered({})

    driver = fake(tmp_path, traits=("CUSTOM_A",))
    start_agents([Agent("node1", driver, Bus())], Bus())
    (report,) = announced[0].reports
    assert set(report.traits) == {"COMPUTE_NODE", "OWNER_NOVA", *driver.report().traits}


def test_user_data_is_not_logged_with_what_went_wrong(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeDriver):
        def spawn(self, guest: GuestSpec) -> None:
            raise ZeroDivisionError

    host = OneHost(tmp_path, driver=Broken)
    reply = host.do(SpawnGuest(new_step(), replace(guest("a"), user_data="c2VjcmV0")))
    assert (reply.error, reply.details) == ("The hypervisor driver failed.", "ZeroDivisionError: ")
    assert "driver failed on SpawnGuest" in caplog.text
    assert "c2VjcmV0" not in caplog.text


def test_what_comes_of_deletes_aborts_and_questions_is_told_urgently(tmp_path: Path) -> None:
    told: dict[str, bool] = {}

    class Bus(ManualBus):
        def tell(self, message: Any, *, urgent: bool = False) -> None:
            told[message.step.workflow] = urgent

    bus = Bus()
    bus.serve_agent("node1", Agent("node1", fake(tmp_path), bus).accept)
    for message in (
        SpawnGuest(new_step("spawn"), guest("a")),
        AbortLiveMigration(new_step("migrate"), "a"),
        LiveMigrate(new_step("migrate"), "a", "node2"),
        AskStep(new_step("ask"), "a"),
        DestroyGuest(new_step("destroy"), "a"),
    ):
        bus.cast("node1", message)
        bus.run()
    assert told == {"spawn": False, "migrate": True, "ask": True, "destroy": True}


def test_a_host_reports_what_its_driver_can_do(tmp_path: Path) -> None:
    lacks = frozenset({Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE})
    driver = FakeDriver(host("node1"), tmp_path / "node1.json", PLAIN, lacks=lacks)
    agent = Agent("node1", driver, ManualBus())
    expected = tuple(sorted(set(Ability) - lacks - {Ability.IMAGE_CACHE}))
    assert agent.report().capabilities == replace(driver.report().capabilities, abilities=expected)
    plain = FakeDriver(host("node2"), tmp_path / "node2.json", PLAIN, lacks=frozenset(Ability))
    assert Agent("node2", plain, ManualBus()).report().capabilities.abilities == ()


@pytest.mark.parametrize(
    "lacks", [frozenset[Ability](), frozenset(Ability) - {Ability.RESIZE_SAME_HOST}, frozenset(Ability)]
)
def test_any_host_powers_off_the_guest_of_an_evacuated_server_and_takes_it_back(
    tmp_path: Path, lacks: frozenset[Ability]
) -> None:
    class Lacking(FakeDriver):
        def __init__(self, *args: Any, **facts: Any) -> None:
            super().__init__(*args, **facts, lacks=lacks)

    host = OneHost(tmp_path, driver=Lacking)
    host.do(SpawnGuest(new_step(), guest("a")))
    left = host.do(MoveAway(new_step(), "a", ""))
    assert (left.error, left.power_state) == (None, PowerState.SHUTDOWN)
    assert host.do(MoveAway(new_step(), "a", "")).error is None, "an order may come again"
    back = host.do(ReturnHome(new_step(), guest("a"), power_on=True))
    assert (back.error, back.power_state) == (None, PowerState.RUNNING)
