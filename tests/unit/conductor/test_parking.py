# SPDX-License-Identifier: Apache-2.0
"""A message that an agent dropped because its process might not act just then is sent again soon."""

from kilonova.conductor.parking import Parking
from kilonova.conductor.workflow import Run, SendToAgent
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import AgentMessage, AskStep, StartGuest, StepState, StepStatus
from support.manual_bus import ManualBus


class Agent:
    """``now``: what the clock shows. ``may_act``: whether the process of agent and workflow may act."""

    def __init__(self) -> None:
        self.now, self.may_act = 0.0, True
        self.sent: list[AgentMessage] = []
        bus = ManualBus()
        bus.serve_agent("a", self.sent.append)  # type: ignore[arg-type]
        self.parking = Parking(bus, lambda: self.may_act, lambda: self.now, 60.0)
        self.run = Run(WorkflowRow("w", "start", "i", "", "req", "act"), None)
        effect = SendToAgent("a", StartGuest(self.run.step_id, "i"))
        assert self.parking.send(self.run, effect, lambda: True, ask=False) is None

    def drops_it(self) -> None:
        assert self.parking.take_status(StepStatus(self.run.step_id, "a", "i", StepState.UNKNOWN)) is None


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
    assert agent.parking.ask_overdue() == ()
    assert isinstance(agent.sent[-1], AskStep)
    agent.drops_it()
    assert [type(message) for message in agent.sent] == [StartGuest, AskStep, StartGuest]
