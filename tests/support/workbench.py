# SPDX-License-Identifier: Apache-2.0
"""Runner for workflows defined by a test, on a real database, with a bus and a clock that the test controls.

The hosts ``a`` and ``b`` record the messages they receive; the test replies for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Ended, SendToAgent
from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.conductor.workflow_engine.run import Interrupt, Run
from kilonova.conductor.workflow_engine.runner import MAX_TRIES, Runner, pause_s
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import NOTHING, Do, Step, Workflow
from kilonova.db import instances, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.messages import (
    AgentMessage,
    AskStep,
    RebootGuest,
    StepReply,
    StepState,
    StepStatus,
    StopGuest,
)
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.transitions import TRANSITIONS
from support.cell import SMALL
from support.manual_bus import ManualBus

ASKED_AFTER_S = 10.0


@dataclass(frozen=True)
class Facts:
    """Facts of a test workflow. ``trace``: the completed steps and undo steps."""

    host: str = "a"
    trace: tuple[str, ...] = ()


def send(_services: Services, run: Run[Facts]) -> Effect:
    """Step that orders the host to reboot the guest."""
    return SendToAgent(run.facts.host, RebootGuest(run.step_id, run.instance_uuid, hard=True), ASKED_AFTER_S)


def unsend(_services: Services, run: Run[Facts]) -> Effect:
    """Undo step that orders the host to stop the guest."""
    return SendToAgent(run.facts.host, StopGuest(run.step_id, run.instance_uuid), ASKED_AFTER_S)


def note(_services: Services, run: Run[Facts]) -> Effect:
    """Step or undo step that completes at once and adds itself to the trace."""
    word = f"{'undo ' if run.row.undoing else ''}{run.row.step}"
    return Completed(replace(run.facts, trace=(*run.facts.trace, word)))


def break_down(_services: Services, _run: Run[Facts]) -> Effect:
    """Step that raises an unexpected exception."""
    raise ZeroDivisionError


def step(name: str, do: Do[Facts] = send, undo: Do[Facts] = NOTHING, **more: Any) -> Step[Facts]:
    return Step(name, do, undo, **more)


def workflow(*steps: Step[Facts], kind: str = "reboot", **more: Any) -> Workflow[Facts]:
    """Return a workflow that sets its server active; a rollback only clears the task state."""

    def settle(tx: Transaction, run: Run[Facts], _power_state: PowerState | None) -> None:
        instances.change(tx, run.instance_uuid, vm_state=VmState.ACTIVE, task_state=None)

    def unwound(_services: Services, _run: Run[Facts]) -> Ended:
        return Ended(lambda tx, run: instances.change(tx, run.instance_uuid, task_state=None))

    return Workflow(kind, Facts, steps, TRANSITIONS["reboot"], settle, unwound, **more)


@dataclass
class Workbench:
    """Runner with its fakes.

    ``now``: the runner's clock, in seconds. ``sent``: (host, message) in order. ``told``: events sent to observers.
    """

    database: Database
    kinds: Sequence[Workflow[Any]]
    max_tries: int = MAX_TRIES
    pause_s: Callable[[int], float] = pause_s
    owner: str = "me"
    now: float = 0.0
    sent: list[tuple[str, AgentMessage]] = field(default_factory=list)
    told: list[WorkflowEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus = ManualBus()
        for host in ("a", "b"):
            self.bus.serve_agent(host, lambda message, host=host: self.sent.append((host, message)))  # type: ignore[misc]
        services = Services(
            database=self.database, claimer=None, owner=self.owner, max_attempts=1, begin=lambda _rows: None
        )  # type: ignore[arg-type]
        self.runner = Runner(
            services,
            self.bus,
            {kind.kind: kind for kind in self.kinds},
            Lease(timedelta(seconds=60)),
            (self.told.append,),
            pause_s=self.pause_s,
            max_tries=self.max_tries,
            clock=lambda: self.now,
        )

    def server(self) -> str:
        """Store a server that is rebooting, and return its uuid."""
        uuid = new_uuid()
        server = Instance(0, uuid, "vm", "p", "u", VmState.ACTIVE, SMALL, task_state=TaskState.REBOOTING)
        self.database.write(lambda tx: instances.insert(tx, [(server, None)]))
        return uuid

    def begin(
        self, kind: Workflow[Any], facts: Any = None, *, server: str | None = None, **changed: Any
    ) -> WorkflowRow:
        """Store and start a workflow; return its first row."""
        row = WorkflowRow(
            uuid=new_uuid(),
            kind=kind.kind,
            instance_uuid=server or self.server(),
            reservation_id="",
            request_id="req-1",
            step="",
            owner=self.owner,
        )
        row = replace(kind.first_row(row, facts or kind.facts()), **changed)
        self.database.write(lambda tx: workflows.insert(tx, [row], row.owner))
        self.runner.begin([row])
        self.bus.run()
        return row

    def interrupt(self, row: WorkflowRow, why: Interrupt) -> None:
        """Interrupt a workflow without storing a workflow in its place."""
        rows = self.database.write(lambda tx: self.runner.interrupt(tx, row.instance_uuid, why))
        self.runner.interrupted(rows)
        self.bus.run()

    def row(self, row: WorkflowRow) -> WorkflowRow | None:
        """Return the present row of a workflow."""
        with self.database.read() as connection:
            return workflows.get(connection, row.uuid)

    def instance(self, row: WorkflowRow) -> Instance:
        with self.database.read() as connection:
            return instances.get(connection, row.instance_uuid)

    def asked(self) -> list[AgentMessage]:
        """Return the status questions sent so far."""
        return [message for _, message in self.sent if isinstance(message, AskStep)]

    def orders(self) -> list[AgentMessage]:
        """Return all other messages sent so far."""
        return [message for _, message in self.sent if not isinstance(message, AskStep)]

    def reply(self, error: str | None = None, **more: Any) -> None:
        """Reply to the last order."""
        host, order = next(each for each in reversed(self.sent) if not isinstance(each[1], AskStep))
        reply = StepReply(order.step, host, order.instance_uuid, error, **more)  # type: ignore[union-attr]
        self.runner.take_reply(reply)
        self.bus.run()

    def answer(self, state: StepState, reply: StepReply | None = None) -> None:
        """Answer the last question."""
        host, question = next(each for each in reversed(self.sent) if isinstance(each[1], AskStep))
        self.runner.take_status(StepStatus(question.step, host, question.instance_uuid, state, reply))
        self.bus.run()

    def wait(self, seconds: float) -> None:
        """Advance the clock, and run the retries and questions that are due."""
        self.now += seconds
        self.runner.retry_broken()
        self.runner.ask_overdue()
        self.bus.run()

    def phases(self) -> list[Phase]:
        return [event.phase for event in self.told]
