# SPDX-License-Identifier: Apache-2.0
"""Triggers of the workflows of a process: start, agents' replies, interrupts and retries.

:mod:`kilonova.conductor.workflow_engine.stepper` runs the steps of the workflows.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from kilonova.conductor.hosts.guest_reports import GuestReports
from kilonova.conductor.hosts.suspected_strays import SuspectedStrays
from kilonova.conductor.workflow_engine.event_waits import EventWaits
from kilonova.conductor.workflow_engine.events import Observer
from kilonova.conductor.workflow_engine.interrupts import interrupt
from kilonova.conductor.workflow_engine.journal import Journal
from kilonova.conductor.workflow_engine.pending_replies import RESPONSE_TIMEOUT_S, AboutStep, PendingReplies
from kilonova.conductor.workflow_engine.retries import MAX_TRIES, Retries, pause_s
from kilonova.conductor.workflow_engine.run import HasHost, Interrupt, Run
from kilonova.conductor.workflow_engine.runs import Runs
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.stepper import Stepper
from kilonova.conductor.workflow_engine.task_progress import TaskProgress
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.lease import Lease
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import StepReply, StepStatus, TaskReached

LOG = logging.getLogger(__name__)


def nowhere(_host: str) -> bool:
    """Return False: the default of ``find_agent``, for a process without a directory of agents in the database."""
    return False


class Runner:
    """Runs the workflows of one process. ``registry``: kind → workflow. Thread-safe.

    ``find_agent``: checks in the database whether a host that seemed unreachable can be reached; may block.
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
        absent_host_timeout: timedelta | None = None,
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
        self._event_waits = EventWaits(self._database)
        self._find_agent = find_agent
        self._retries = Retries(pause_s, max_tries, clock, absent_host_timeout)
        self._runs = Runs(registry, lambda uuid: self._retries.later(uuid, 1))
        #: Stored workflows that a thread of this process is about to start. A dict, because its operations are
        #: thread-safe.
        self._promised: dict[str, None] = {}
        self._stepper = Stepper(
            services,
            bus,
            registry,
            observers,
            self._journal,
            self._runs,
            self._pending_replies,
            self._event_waits,
            self._retries,
            self._suspected_strays,
            beginnings=beginnings,
            find_agent=find_agent,
            begin=self._begin_released,
        )

    @property
    def may_act(self) -> bool:
        """True while this process holds its lease, or is the only process, so that it may act for its hosts."""
        return self._database.is_sole_process or self._lease.is_held

    @property
    def known(self) -> frozenset[str]:
        """The UUIDs of the workflows that this process runs."""
        return self._runs.uuids

    @property
    def promised(self) -> frozenset[str]:
        """The UUIDs of the stored workflows that a thread of this process is about to start."""
        return frozenset(self._promised.copy())

    @contextmanager
    def promise(self, workflow: str) -> Iterator[None]:
        """Exclude a stored workflow from recovery until this thread has started it."""
        self._promised[workflow] = None
        try:
            yield
        finally:
            del self._promised[workflow]

    @property
    def waits_for_agents(self) -> int:
        """Number of workflows that wait for a reply of an agent."""
        return len(self._pending_replies)

    def awaited_facts(self, message: AboutStep) -> Any:
        """Return the facts of the workflow that waits for the step of an agent's message; None if no workflow does."""
        run = self._runs.get(message.step.workflow)
        return None if run is None or not self._pending_replies.awaits(message) else run.facts

    # --- start and retry ----------------------------------------------------------------------------------------------

    def begin(
        self, rows: Sequence[WorkflowRow], memos: Mapping[str, Any] | None = None, *, resumed: bool = False
    ) -> None:
        """Start or resume workflows of this process at their present step, in the background.

        ``memos``: cached data by workflow UUID. ``resumed``: the messages of the present steps may have been sent.
        """
        of_request: dict[tuple[str, str], list[Run[HasHost]]] = defaultdict(list)
        for row in rows:
            run = None if row.waiting or row.stuck else self._stepper.remember(row, (memos or {}).get(row.uuid))
            if run is None:
                continue
            if resumed:
                self._runs.replace(replace(run, taken_over=True))
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
        """Start the waiting workflows of instances that have no other workflow running."""
        for uuid in instance_uuids:
            self._begin_released(self._journal.release_waiting(uuid))

    def _begin_released(self, released: Sequence[WorkflowRow]) -> None:
        """Start released workflows that this process owns; other processes find theirs in the journal.

        Workflows in ``promised`` are started by :meth:`begin_promised`.
        """
        self.begin([row for row in released if row.owner == self._owner and row.uuid not in self._promised])

    def begin_promised(self, workflow: str) -> None:
        """Start a workflow in :attr:`promised` if the workflows that it waited for have ended since it was stored."""
        self._stepper.look_again_soon(workflow)

    def retry_broken(self) -> None:
        """Retry broken workflows whose back-off is over, at the step that the journal records."""
        self._run_again(self._retries.due())

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run work that may take seconds, in the background."""
        self._bus.run_blocking(work)

    def wake_for_events(self, instance_uuids: Collection[str]) -> None:
        """Continue the workflows of this process whose awaited events, about these servers, are now stored."""
        self._run_again(self._event_waits.of(instance_uuids))

    def look_for_events(self) -> None:
        """Continue the workflows whose awaited event another process has stored, or whose time limit is over."""
        if self.may_act:
            self._run_again(self._event_waits.due())

    def _run_again(self, waiting: Collection[str]) -> None:
        for uuid in waiting:
            run = self._runs.get(uuid)
            if run is not None:
                self._stepper.submit(run, partial(self._runs.post, uuid, partial(self._stepper.look_again, uuid)))

    def forget_everything(self) -> None:
        """Clear this process's memory of its workflows, since other processes may have continued them."""
        self._runs.clear()
        self._pending_replies.clear()
        self._event_waits.clear()
        self._retries.clear()

    # --- messages -----------------------------------------------------------------------------------------------------

    def take_reply(self, reply: StepReply) -> None:
        """Handle the reply of an agent to a step or to the removal of a guest."""
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
        """Note the task state that an agent reports for its step; it is written to the server's record later."""
        run = self._pending_replies.take_progress(message)
        if run is not None:
            self.task_progress.note(run, message.task)

    def take_status(self, status: StepStatus) -> None:
        """Handle an agent's answer about the state of a step."""
        task = None
        if self._pending_replies.is_forgotten(status):
            with self._database.read() as connection:
                task = instances.task_of(connection, status.instance_uuid)
        reply = self._pending_replies.take_status(status, task)
        if reply is not None:
            self.take_reply(reply)

    def ask_overdue(self) -> None:
        """Ask agents with overdue replies for the state of their steps; fail the steps of unreachable agents."""
        for reply in self._pending_replies.ask_overdue():
            if self._find_agent(reply.host):
                self._pending_replies.hurry([reply.host])
            else:
                self.take_reply(reply)

    def ask_hosts(self, hosts: Collection[str]) -> None:
        """Ask the agents of these hosts at once for the state of their steps, which a restarted agent may have lost.

        Also continue the workflows that wait for one of these hosts.
        """
        self._pending_replies.hurry(hosts)
        self.ask_overdue()
        self.wake(hosts)
        self.retry_broken()

    def wake(self, hosts: Collection[str]) -> None:
        """Make the next :meth:`retry_broken` continue the workflows that wait for one of these hosts."""
        self._retries.wake(self._runs.awaiting(hosts))

    def look_at_suspected_strays(self) -> None:
        """Send the queries about suspected stray guests that were postponed while this process had no lease."""
        self._suspected_strays.look_at_waiting()

    # --- interrupts ---------------------------------------------------------------------------------------------------

    def interrupt(self, tx: Transaction, instance_uuid: str, why: Interrupt) -> tuple[WorkflowRow, ...]:
        """Interrupt the workflows of an instance; return their rows as changed.

        Call it in the transaction that stores the interrupting action, then pass the rows to :meth:`interrupted`.
        Raises: Conflict for a stuck workflow, unless the interrupt is a delete.
        """
        return interrupt(tx, self.registry, self._owner, instance_uuid, why)

    def interrupted(self, rows: Sequence[WorkflowRow]) -> None:
        """Continue interrupted workflows of this process; other processes find their interrupts in the journal."""
        for row in rows:
            if row.owner != self._owner:
                continue
            known = self._runs.get(row.uuid)
            run = self._stepper.remember(row)
            if run is None:
                continue
            if self._pending_replies.is_pending(run):
                self._bus.run_urgently(partial(self._stepper.cut_short, row.uuid))
            else:  # if the interrupt started a new attempt, that attempt has sent no message yet
                self._stepper.look_again_soon(row.uuid, resumed=known is None or known.row.attempt >= row.attempt)
