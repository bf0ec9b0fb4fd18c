# SPDX-License-Identifier: Apache-2.0
"""The lease of a control process: heartbeats, takeover from dead processes, and handover between live ones."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.db import host_agents, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import WorkflowRow
from kilonova.lease import Lease

LOG = logging.getLogger(__name__)
#: A workflow counts as forgotten if its process has not started it within this time after its creation.
_FORGOTTEN_AFTER = timedelta(seconds=60)


class ProcessLease:
    """Renews the lease of a control process, and resumes the workflows that the process takes over.

    ``has_all_agents``: returns whether all hosts of enrolled agents are registered. A new process takes over unfinished
    workflows as soon as this returns True, or after the duration of one lease. Without this wait, the workflows would
    fail after a restart of the whole cloud, since no host is reachable yet. ``clock``: in seconds. ``predecessors``:
    uuids of control processes that have ended for certain; their leases end when this process registers.
    """

    def __init__(
        self,
        database: Database,
        runner: Runner,
        process: Process,
        lease: Lease,
        has_all_agents: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        predecessors: Collection[str] = (),
    ) -> None:
        self._database = database
        self._runner = runner
        self._process = process
        self._owner = process.uuid
        self._lease = lease
        self._has_all_agents = has_all_agents
        self._clock = clock
        self._waits_until = clock() + lease.duration.total_seconds()
        self._waits = True
        self._predecessors = frozenset(predecessors)
        self._unheard = database.unheard_writes
        self._search_at: float | None = None

    def sign_of_life(self) -> None:
        """Write a heartbeat to the database and renew the lease; drop the lease if it had already expired."""
        since = self._lease.now()
        if self._database.write(self._note_life):
            self._lease.renew(since)
        else:
            self._lease.lapse()

    def _note_life(self, tx: Transaction) -> bool:
        """Write a heartbeat; return True if the lease had not expired, so that no other process took over."""
        if self._database.is_sole_process:  # there is no other process, so none could have taken over
            host_agents.register(tx, self._process, (), self._lease.duration)
            return True
        return self._owner in host_agents.keep_alive(tx, [self._owner], self._lease.duration)

    def enter(self, announce: Callable[[], None]) -> int:
        """Register this process as alive, at its start or after its lease expired; return how many workflows resume.

        ``announce``: makes the agents report their guests and remove guests that were moved or deleted meanwhile. Only
        after that may this process act again. It continues from the journal, because its memory may be stale.
        """
        self._runner.forget_everything()
        announce()
        since = self._lease.now()
        self._database.write(self._join)
        self._lease.renew(since)
        self._runner.look_at_suspected_strays()
        with self._database.read() as connection:
            own = workflows.of_owner(connection, self._owner)
        self._go_on(own)
        return len(own) + self.resume()

    def _join(self, tx: Transaction) -> None:
        host_agents.register(tx, self._process, (), self._lease.duration)
        if self._database.is_sole_process:
            host_agents.end_control_processes(tx, besides=self._owner)
        if self._predecessors:
            host_agents.end_leases(tx, self._predecessors)

    def resume(self) -> int:
        """Take over the unfinished workflows of dead processes and resume them; return their number.

        Return 0 while this process, after its start, still waits for agents to register.
        """
        if self._waits and not self._has_all_agents() and self._clock() < self._waits_until:
            return 0
        self._waits = False
        everything = self._database.is_sole_process

        def adopt(tx: Transaction) -> tuple[WorkflowRow, ...]:
            if not self._may_take_over(tx):
                return ()
            return workflows.adopt(tx, self._owner, everything=everything)

        count, renewed_at = 0, self._clock()
        while adopted := self._database.write(adopt):
            self._go_on(adopted)
            count += len(adopted)
            if self._clock() - renewed_at > self._lease.renewal_s:
                self.sign_of_life()
                renewed_at = self._clock()
        return count

    def _may_take_over(self, tx: Transaction) -> bool:
        """Return True if this process may take over workflows: it holds its lease in the database, or runs alone."""
        return self._database.is_sole_process or host_agents.is_alive(tx, self._owner)

    def resume_later(self) -> None:
        """Call :meth:`resume` if it was postponed at the start of this process because agents were missing."""
        if self._waits and (count := self.resume()):
            LOG.info("Resuming %d unfinished workflows", count)

    def resume_unacknowledged(self) -> int:
        """Resume workflows whose commit succeeded but was never acknowledged to this process; return their number.

        This happens when the database connection fails. The search starts one minute after the failure: by then every
        such workflow is running, about to be started by a thread, or forgotten.
        """
        unheard, self._unheard = self._unheard, self._database.unheard_writes
        if unheard != self._unheard:
            self._search_at = self._clock() + _FORGOTTEN_AFTER.total_seconds()
        if self._search_at is None or self._clock() < self._search_at:
            return 0
        known = self._present()  # called before and after the journal is read, since workflows start and end meanwhile
        with self._database.read() as connection:
            own = workflows.of_owner(connection, self._owner)
        self._search_at = None
        long_ago, known = self._database.clock.now() - _FORGOTTEN_AFTER, known | self._present()
        forgotten = [row for row in own if row.uuid not in known and (row.created_at or long_ago) < long_ago]
        if forgotten:
            LOG.warning("Resuming %d workflows whose commit was never acknowledged", len(forgotten))
            self._go_on(forgotten)
        return len(forgotten)

    def _present(self) -> frozenset[str]:
        """Return the workflows that this process runs or is about to start.

        The workflows about to start are read first: one that starts meanwhile is then found among the running ones.
        """
        promised = self._runner.promised
        return promised | self._runner.known

    def take_handed_over(self) -> int:
        """Resume workflows that other processes handed over or interrupted; return their number."""
        with self._database.read() as connection:
            if not workflows.is_heir(connection, self._owner):
                return 0
        inherited = self._database.write(lambda tx: workflows.inherit(tx, self._owner))
        known, promised = self._runner.known, self._runner.promised
        self._runner.interrupted([row for row in inherited if row.uuid in known])
        prepared = [row for row in inherited if row.interrupt is not None or row.uuid not in promised]
        self._go_on([row for row in prepared if row.uuid not in known])
        return len(inherited)

    def _go_on(self, adopted: Sequence[WorkflowRow]) -> None:
        for row in adopted:
            workflow = self._runner.registry.get(row.kind)
            if workflow is not None and workflow.leads_others:
                self._take_members(row)
        self._runner.begin(adopted, resumed=True)
        orphaned = {row.instance_uuid for row in adopted if row.waiting}
        if orphaned:
            self._runner.begin_waiting(orphaned)

    def _take_members(self, leader: WorkflowRow) -> None:
        """Take over the member workflows of a batch from dead processes, and resume the interrupted members."""
        everything = self._database.is_sole_process

        def take(tx: Transaction) -> int:
            if not self._may_take_over(tx):
                return 0
            return workflows.take_members(tx, leader.uuid, self._owner, everything=everything)

        while self._database.write(take):
            pass
        with self._database.read() as connection:
            ending = workflows.members(connection, leader.uuid, self._owner, limit=100_000, interrupted=True)
        self._runner.begin(ending, resumed=True)
