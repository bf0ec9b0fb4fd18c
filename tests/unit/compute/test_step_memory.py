# SPDX-License-Identifier: Apache-2.0
"""A step is carried out once, and can be asked for while it waits, while it runs, and when it is done."""

from pathlib import Path
from typing import Any

from kilonova.compute.sessions import start_agents
from kilonova.compute.step_memory import StepMemory
from kilonova.compute.virt.fake import FakeDriver
from kilonova.messaging.messages import (
    DestroyGuest,
    SpawnGuest,
    StartGuest,
    StepId,
    StepReply,
    StepState,
    StepStatus,
    StopGuest,
)
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, new_step


def test_a_message_that_comes_again_has_its_reply_told_again_and_does_nothing(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    stop = StopGuest(new_step(), "a")
    host.do(SpawnGuest(new_step(), guest()))
    first = host.do(stop)
    host.do(StartGuest(new_step(), "a"))
    assert host.do(stop) == first
    assert host.replies.count(first) == 2
    assert host.driver.list_guests() == {"a": PowerState.RUNNING}


def test_a_failure_is_remembered_too(tmp_path: Path) -> None:
    host = OneHost(tmp_path, failing_spawns=1)
    spawn = SpawnGuest(new_step(), guest())
    failed = host.do(spawn)
    assert failed.error is not None
    assert host.do(spawn) == failed
    assert host.driver.list_guests() == {}
    assert host.do(SpawnGuest(new_step(), guest())).error is None


def test_a_message_that_comes_again_while_it_waits_is_carried_out_once(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    spawn, stop = SpawnGuest(new_step(), guest()), StopGuest(new_step(), "a")
    for message in (spawn, stop, stop, spawn):
        host.send(message)
    host.bus.run()
    assert [reply.step for reply in host.replies] == [spawn.step, stop.step]


def test_what_belongs_to_no_workflow_is_carried_out_each_time(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    stray = DestroyGuest(StepId("", "stray", 0), "a")
    for _ in range(2):
        host.do(SpawnGuest(new_step(), guest()))
        host.do(stray)
        assert host.driver.list_guests() == {}


def test_messages_without_a_workflow_are_not_taken_for_each_other(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    for uuid in ("a", "b"):
        host.do(SpawnGuest(new_step(), guest(uuid)))
    for uuid in ("a", "b"):
        host.send(DestroyGuest(StepId("", "stray", 0), uuid))
    host.bus.run()
    assert host.driver.list_guests() == {}


def test_a_step_is_unknown_then_waits_then_is_done(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    spawn, stop = SpawnGuest(new_step(), guest()), StopGuest(new_step(), "a")
    assert (host.ask(stop.step).state, host.ask(stop.step).reply) == (StepState.UNKNOWN, None)
    host.send(spawn)
    host.send(stop)
    assert host.ask(spawn.step).state is StepState.RUNNING
    assert host.ask(stop.step).state is StepState.RUNNING
    host.bus.run()
    done = host.ask(stop.step)
    assert (done.host, done.instance_uuid, done.state, done.reply) == ("node1", "a", StepState.DONE, host.replies[-1])


def test_a_step_can_be_asked_for_while_it_runs(tmp_path: Path) -> None:
    answers: list[StepState] = []
    spawn = SpawnGuest(new_step(), guest())

    class Curious(FakeDriver):
        def spawn(self, guest: Any) -> None:
            answers.append(host.ask(spawn.step).state)
            super().spawn(guest)

    host = OneHost(tmp_path, driver=Curious)
    host.do(spawn)
    assert answers == [StepState.RUNNING]


def test_a_new_agent_knows_of_nothing(tmp_path: Path) -> None:
    spawn = SpawnGuest(new_step(), guest())
    OneHost(tmp_path).do(spawn)
    again = OneHost(tmp_path)
    assert again.ask(spawn.step).state is StepState.UNKNOWN
    assert again.do(spawn).error is None
    assert again.driver.list_guests() == {"a": PowerState.RUNNING}


def test_a_message_that_was_dropped_has_never_come_and_the_agent_says_so(tmp_path: Path) -> None:
    may_act = [False]
    host = OneHost(tmp_path, may_act=lambda: may_act[0])
    spawn = SpawnGuest(new_step(), guest())
    host.send(spawn)
    host.bus.run()
    assert host.told == [], "it would be sent again at once, and again"
    assert host.ask(spawn.step).state is StepState.UNKNOWN, "a question is answered also then"
    may_act[0] = True
    host.agent.tell_late_replies()
    host.bus.run()
    assert host.told[1:] == [StepStatus(spawn.step, "node1", spawn.instance_uuid, StepState.UNKNOWN)]
    assert host.ask(spawn.step).state is StepState.UNKNOWN
    assert host.do(spawn).power_state is PowerState.RUNNING


def test_a_reply_that_the_bus_refused_can_be_asked_for(tmp_path: Path) -> None:
    class Deaf(Exception):
        pass

    def refuse(what: str) -> None:
        if what == "from an agent: StepReply":
            raise Deaf

    host = OneHost(tmp_path, event=refuse)
    spawn = SpawnGuest(new_step(), guest())
    host.send(spawn)
    host.bus.run()
    assert host.told == []
    reply = host.ask(spawn.step).reply
    assert reply is not None
    assert reply.power_state is PowerState.RUNNING


def test_of_a_guest_that_was_destroyed_at_a_start_nothing_is_remembered(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    spawn = SpawnGuest(new_step(), guest())
    host.do(spawn)
    start_agents([host.agent], host.bus)
    assert host.driver.list_guests() == {}
    assert host.do(spawn).power_state is PowerState.RUNNING
    assert host.driver.list_guests() == {"a": PowerState.RUNNING}


def test_the_oldest_replies_are_forgotten_and_what_runs_is_not() -> None:
    memory = StepMemory(remembered=2)
    steps = [new_step() for _ in range(4)]
    for step in steps:
        assert memory.begin(step) is StepState.UNKNOWN
    for step in steps[1:]:
        memory.end(step, StepReply(step, "node1", "a"))
    states = [memory.status("node1", "a", step).state for step in steps]
    assert states == [StepState.RUNNING, StepState.UNKNOWN, StepState.DONE, StepState.DONE]
