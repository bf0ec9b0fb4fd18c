# SPDX-License-Identifier: Apache-2.0
"""When the workflows of a process go on: they begin, agents reply, somebody interrupts them, it is time to try again.

How they go on, of whatever kind they are, says :mod:`kilonova.conductor.workflow_engine.stepper`.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kilonova.conductor.hosts.guest_reports import GuestReports
from kilonova.conductor.hosts.suspected_strays import SuspectedStrays
from kilonova.conductor.workflow_engine.events import Observer
from kilonova.conductor.workflow_engine.interrupts import interrupt
from kilonova.conductor.workflow_engine.journal import Journal
from kilonova.conductor.workflow_engine.pending_replies import RESPONSE_TIMEOUT_S, AboutStep, PendingReplies
from kilonova.conductor.workflow_engine.retries import MAX_TRIES, Retries, pause_s
from kilonova.conductor.workflow_engine.runs import Runs
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.stepper import Stepper
from kilonova.conductor.workflow_engine.task_progress import TaskProgress
from kilonova.conductor.workflow_engine.workflow import Interrupt, Run, Workflow
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.lease import Lease
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import StepReply, StepStatus, TaskReached

LOG = logging.getLogger(__name__)


def nowhere(_host: str) -> bool:
    """Tell that a host which is not on the bus is not anywhere else either."""
    return False


class Runner:
    """The workflows of one process. ``registry``: kind → workflow. Safe to use from any thread.

    ``find_agent``: looks, waiting for the database, whether a host can be reached after all that seemed not to be.
    """

    def __init__(
        self,
        services: Services,
        bus: ConductorBus,
        registry: Mapping[str, Workflow[Any]],
        lease: Lease,
        observers: Sequence[Observer] = (),
        *,
        beginnings: Sequence[Observer] = (),
        pause_s: Callable[[int], float] = pause_s,
        max_tries: int = MAX_TRIES,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        find_agent: Callable[[str], bool] = nowhere,
    ) -> None:
        self.services = services
        self.registry = registry
        self._database = services.database
        self._owner = services.owner
        self._bus = bus
        self._lease = lease
        self._journal = Journal(self._database, self._owner, lambda kind: registry[kind].transition)
        self.guests = GuestReports(self._database, bus, lambda: self.may_act, find_agent)
        self._suspected_strays = SuspectedStrays(self._database, self.guests, lambda: self.may_act)
        self._pending_replies = PendingReplies(bus, lambda: self.may_act, clock, response_timeout_s)
        self.task_progress = TaskProgress(
            self._database, lambda kind: registry[kind].transition, self._pending_replies.is_pending
        )
        self._find_agent = find_agent
        self._retries = Retries(pause_s, max_tries, clock)
        self._runs = Runs(registry, lambda uuid: self._retries.later(uuid, 1))
        #: Stored workflows that a thread of this process has begin later. A dict, so that any thread may change it.
        self._promised: dict[str, None] = {}
        self._stepper = Stepper(
            services,
            bus,
            registry,
            observers,
            self._journal,
            self._runs,
            self._pending_replies,
            self._retries,
            self._suspected_strays,
            beginnings=beginnings,
            find_agent=find_agent,
            begin=self._begin_released,
        )

    @property
    def may_act(self) -> bool:
        """Whether nobody counts this process as dead, so that it may act for its hosts."""
        return self._database.is_sole_process or self._lease.is_held

    @property
    def known(self) -> frozenset[str]:
        """The workflows that this process has under way."""
        return self._runs.uuids

    @property
    def promised(self) -> frozenset[str]:
        """The workflows that are stored, and that a thread of this process has yet to begin."""
        return frozenset(self._promised.copy())

    @contextmanager
    def promise(self, workflow: str) -> Iterator[None]:
        """Have nobody take a stored workflow for forgotten while this thread does what comes before it can begin."""
        self._promised[workflow] = None
        try:
            yield
        finally:
            del self._promised[workflow]

    @property
    def waits_for_agents(self) -> int:
        """How many workflows wait for the reply of an agent."""
        return len(self._pending_replies)

    def awaited_facts(self, message: AboutStep) -> Any:
        """Return what the workflow remembers that waits for the step that a message is about; None when none does."""
        run = self._runs.get(message.step.workflow)
        return None if run is None or not self._pending_replies.awaits(message) else run.facts

    # --- beginning and going on ---------------------------------------------------------------------------------------

    def begin(
        self, rows: Sequence[WorkflowRow], memos: Mapping[str, Any] | None = None, *, resumed: bool = False
    ) -> None:
        """Have workflows of this process go on from their present step, in the background.

        ``memos``: what is at hand for them. ``resumed``: their messages may have been sent already.
        """
        of_request: dict[tuple[str, str], list[Run[Any]]] = defaultdict(list)
        for row in rows:
            run = None if row.waiting or row.stuck else self._stepper.remember(row, (memos or {}).get(row.uuid))
            if run is None:
                continue
            if row.reservation_id and not row.undoing and row.attempt == 0:
                of_request[row.kind, row.reservation_id].append(run)
            else:
                self._stepper.submit(
                    run, partial(self._runs.post, row.uuid, partial(self._go_on, row, resumed=resumed))
                )
        for runs in of_request.values():
            self._stepper.submit(runs[0], partial(self._stepper.begin_together, runs))

    def _go_on(self, row: WorkflowRow, *, resumed: bool) -> None:
        run = self._runs.get(row.uuid)
        if run is not None and run.row.version == row.version:
            self._stepper.advance(run, resumed=resumed)
            self._stepper.cut_short(row.uuid)

    def begin_waiting(self, instance_uuids: Collection[str]) -> None:
        """Let workflows begin whose instances have nothing else under way."""
        for uuid in instance_uuids:
            self._begin_released(self._journal.release_waiting(uuid))

    def _begin_released(self, released: Sequence[WorkflowRow]) -> None:
        """Begin what waited for others, as far as it is ours; other processes notice by themselves.

        What is promised begins with :meth:`begin_promised`.
        """
        self.begin([row for row in released if row.owner == self._owner and row.uuid not in self._promised])

    def begin_promised(self, workflow: str) -> None:
        """Begin what waited for others and was promised, if these have ended since it was stored."""
        self._stepper.look_again_soon(workflow)

    def retry_broken(self) -> None:
        """Go on with workflows whose step broke, and whose time has come, at the step that the journal has."""
        for uuid in self._retries.due():
            run = self._runs.get(uuid)
            if run is not None:
                self._stepper.submit(run, partial(self._runs.post, uuid, partial(self._stepper.look_again, uuid)))

    def forget_everything(self) -> None:
        """Forget what this process remembers, since others may have gone on with it."""
        self._runs.clear()
        self._pending_replies.clear()
        self._retries.clear()

    # --- messages -----------------------------------------------------------------------------------------------------

    def take_reply(self, reply: StepReply) -> None:
        """Take the reply of an agent."""
        if not reply.step.workflow:
            self.guests.take_removed(reply)
        elif self._pending_replies.take(reply):
            self._runs.post(reply.step.workflow, partial(self._resume, reply))
        else:
            LOG.debug("Late reply dropped: %r", reply)
            self._suspected_strays.look_at_reply(reply)

    def _resume(self, reply: StepReply) -> None:
        run = self._runs.get(reply.step.workflow)
        if run is None or run.row.attempt != reply.step.attempt:
            self._suspected_strays.look_at_reply(reply)
        else:
            self._stepper.resume(run, reply)

    def take_progress(self, message: TaskReached) -> None:
        """Have a server show how far the agent is with its step."""
        run = self._pending_replies.take_progress(message)
        if run is not None:
            self.task_progress.note(run, message.task)

    def take_status(self, status: StepStatus) -> None:
        """Take the answer to the question how far a step is."""
        task = None
        if self._pending_replies.is_forgotten(status):
            with self._database.read() as connection:
                task = instances.task_of(connection, status.instance_uuid)
        reply = self._pending_replies.take_status(status, task)
        if reply is not None:
            self.take_reply(reply)

    def ask_overdue(self) -> None:
        """Ask the agents whose replies are overdue how far they are; one that never answers counts as unreachable."""
        for reply in self._pending_replies.ask_overdue():
            if self._find_agent(reply.host):
                self._pending_replies.hurry([reply.host])
            else:
                self.take_reply(reply)

    def ask_hosts(self, hosts: Collection[str]) -> None:
        """Ask the agents of hosts how far they are with what was sent there: they may have come back without it."""
        self._pending_replies.hurry(hosts)
        self.ask_overdue()

    def look_at_suspected_strays(self) -> None:
        """Look at the guests of replies that came while this process might not act."""
        self._suspected_strays.look_at_waiting()

    # --- interrupts ---------------------------------------------------------------------------------------------------

    def interrupt(self, tx: Transaction, instance_uuid: str, why: Interrupt) -> tuple[WorkflowRow, ...]:
        """Have what is under way for an instance end, or end sooner; return the rows as they are now.

        To be called in the transaction that stores what wants it so; hand the rows to :meth:`interrupted` afterwards.
        Raises: Conflict for what waits for an operator, which gives way to a delete only.
        """
        return interrupt(tx, self.registry, self._owner, instance_uuid, why)

    def interrupted(self, rows: Sequence[WorkflowRow]) -> None:
        """Go on with workflows of this process that were interrupted; other processes notice by themselves."""
        for row in rows:
            if row.owner != self._owner:
                continue
            known = self._runs.get(row.uuid)
            run = self._stepper.remember(row)
            if run is None:
                continue
            if self._pending_replies.is_pending(run):
                self._bus.run_urgently(partial(self._stepper.cut_short, row.uuid))
            else:  # whoever interrupts it sends nothing: what a new attempt has to say was not said yet
                self._stepper.look_again_soon(row.uuid, resumed=known is None or known.row.attempt >= row.attempt)
