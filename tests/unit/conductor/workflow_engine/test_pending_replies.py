# SPDX-License-Identifier: Apache-2.0
"""A message that an agent dropped because its process might not act just then is sent again soon."""

import itertools
from dataclasses import replace

import pytest

from kilonova.conductor.workflow_engine.effects import SendToAgent
from kilonova.conductor.workflow_engine.pending_replies import MAX_QUESTIONS, PendingReplies
from kilonova.conductor.workflow_engine.run import Run, is_unreachable
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import (
    AgentMessage,
    AskStep,
    MigrationProgress,
    StartGuest,
    StepId,
    StepReply,
    StepState,
    StepStatus,
)
from support.manual_bus import ManualBus


class Agent:
    """``now``: what the clock shows. ``may_act``: whether the process of agent and workflow may act."""

    def __init__(self, bus: ManualBus | None = None) -> None:
        self.now, self.may_act = 0.0, True
        self.sent: list[AgentMessage] = []
        bus = bus or ManualBus()
        bus.serve_agent("a", self.sent.append)  # type: ignore[arg-type]
        self.pending = PendingReplies(bus, lambda: self.may_act, lambda: self.now, 60.0)
        self.run = Run(
            WorkflowRow(uuid="w", kind="start", instance_uuid="i", reservation_id="", request_id="req", step="act"),
            None,
        )
        effect = SendToAgent("a", StartGuest(self.run.step_id, "i"))
        assert self.pending.send(self.run, effect, lambda: True, ask=False) is None

    def drops_it(self) -> None:
        assert self.pending.take_status(StepStatus(self.run.step_id, "a", "i", StepState.UNKNOWN)) is None


def test_it_is_sent_again_at_once_where_this_process_may_act_by_now() -> None:
    agent = Agent()
    agent.drops_it()
    assert [type(message) for message in agent.sent] == [StartGuest, StartGuest]


def test_it_is_asked_for_soon_where_this_process_may_not_act_yet() -> None:
    agent = Agent()
    agent.may_act = False
    agent.drops_it()
    assert len(agent.sent) == 1
    agent.may_act, agent.now = True, 1.0
    assert agent.pending.ask_overdue() == ()
    assert isinstance(agent.sent[-1], AskStep)
    agent.drops_it()
    assert [type(message) for message in agent.sent] == [StartGuest, AskStep, StartGuest]


def test_who_drops_it_again_and_again_gets_it_after_longer_and_longer_pauses() -> None:
    agent = Agent()
    came = []
    for tenth in range(2000):
        agent.now = tenth / 10
        before = len(agent.sent)
        agent.pending.ask_overdue()
        agent.drops_it()
        came += [agent.now] * agent.sent[before:].count(agent.sent[0])
    pauses = [after - before for before, after in itertools.pairwise(came)]
    assert came[0] == 0.0
    assert pauses[:5] == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0], abs=0.3)
    assert len(agent.sent) < 30
    agent.pending.hurry(["a"])
    agent.pending.ask_overdue()
    agent.drops_it()
    assert [type(message) for message in agent.sent[-2:]] == [AskStep, StartGuest], "it has come with a new session"


class OneSided(ManualBus):
    """Everything is sent, and nothing that agents say arrives, while ``is_deaf``."""

    is_deaf = False

    def hears(self, host: str) -> bool:
        return not self.is_deaf and super().hears(host)


def test_who_cannot_be_heard_leaves_no_question_unanswered() -> None:
    bus = OneSided()
    agent = Agent(bus)
    bus.is_deaf = True
    for _ in range(10 * MAX_QUESTIONS):
        agent.now += 60.0
        assert agent.pending.ask_overdue() == ()
    bus.is_deaf = False
    for _ in range(MAX_QUESTIONS):
        agent.now += 60.0
        assert agent.pending.ask_overdue() == ()
    agent.now += 60.0
    (reply,) = agent.pending.ask_overdue()
    assert is_unreachable(reply)


STEP = StepId("w", "act", 0)
FORGED = {
    "another workflow": {"step": replace(STEP, workflow="v")},
    "another step": {"step": replace(STEP, step="undo")},
    "another attempt": {"step": replace(STEP, attempt=1)},
    "another host": {"host": "b"},
    "another instance": {"instance_uuid": "j"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_is_not_about_the_step_that_was_sent_has_no_effect(forged: dict[str, object]) -> None:
    """An agent may know of steps of other hosts, or make up what it says of its own."""
    agent = Agent()
    assert agent.run.step_id == STEP
    real = StepReply(STEP, "a", "i")
    reply = replace(real, **forged)  # type: ignore[arg-type]
    assert not agent.pending.take(reply)
    assert agent.pending.take_status(StepStatus(STEP, "a", "i", StepState.DONE, reply)) is None
    status = StepStatus(STEP, "a", "i", StepState.DONE, real)
    assert agent.pending.take_status(replace(status, **forged)) is None  # type: ignore[arg-type]
    progress = MigrationProgress(STEP, "a", "i")
    assert not agent.pending.awaits(replace(progress, **forged))  # type: ignore[arg-type]
    assert agent.pending.awaits(progress)
    assert agent.pending.take_status(status) == real
    assert agent.pending.take(real)
