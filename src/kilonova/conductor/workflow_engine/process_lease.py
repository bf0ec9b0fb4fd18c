# SPDX-License-Identifier: Apache-2.0
"""One process among others: say that it lives, take over what dead ones left and what live ones hand over."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.db import host_agents, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import WorkflowRow
from kilonova.lease import Lease

LOG = logging.getLogger(__name__)
#: Whoever stores a workflow has it begin sooner than that.
_FORGOTTEN_AFTER = timedelta(seconds=60)


class ProcessLease:
    """The lease of a control process, and the workflows that come to it.

    ``has_all_agents``: whether all agents beyond this process that may speak have reported their hosts. A process that
    starts takes up what others left when that is so, or after one lease: what a cloud left unfinished that was stopped
    as a whole would fail else, as no host is there yet. ``clock``: in seconds.
    """

    def __init__(
        self,
        database: Database,
        runner: Runner,
        process: Process,
        lease: Lease,
        has_all_agents: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
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
        self._unheard = database.unheard_writes
        self._search_at: float | None = None

    def sign_of_life(self) -> None:
        """Tell the other processes that this one is alive; notice when they counted it as dead meanwhile."""
        since = self._lease.now()
        if self._database.write(self._note_life):
            self._lease.renew(since)
        else:
            self._lease.lapse()

    def _note_life(self, tx: Transaction) -> bool:
        """Write a sign of life. Returns whether this process had its lease until now, so that nobody took over."""
        if self._database.is_sole_process:  # there is nobody else
            host_agents.register(tx, self._process, (), self._lease.duration)
            return True
        return self._owner in host_agents.keep_alive(tx, [self._owner], self._lease.duration)

    def enter(self, announce: Callable[[], None]) -> int:
        """Join the living, at the start or after a time in which others counted this process as dead.

        ``announce``: has the agents report their guests, and remove what was moved or deleted meanwhile. Only then
        may this process act again: on what the journal says now, not on what it remembers. Returns how many workflows
        go on.
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

    def resume(self) -> int:
        """Take over unfinished workflows that nobody runs, go on where they were, and return how many there are.

        None for as long as this process, which has begun just now, waits for agents.
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
        """Tell whether nobody counts this process as dead, who would take over from it what it takes over now."""
        return self._database.is_sole_process or host_agents.is_alive(tx, self._owner)

    def resume_later(self) -> None:
        """Do what :meth:`resume` did not do because this process waited for agents, if that is over."""
        if self._waits and (count := self.resume()):
            LOG.info("%d unfinished operations are resumed", count)

    def resume_unacknowledged(self) -> int:
        """Go on with workflows that were stored although whoever stored them was told that this is not known.

        That happens while a database is away. They are looked for a while later, so that each is by then under way, or
        promised to begin, or will never be. Returns how many there were.
        """
        unheard, self._unheard = self._unheard, self._database.unheard_writes
        if unheard != self._unheard:
            self._search_at = self._clock() + _FORGOTTEN_AFTER.total_seconds()
        if self._search_at is None or self._clock() < self._search_at:
            return 0
        known = self._present()  # some of these end while the journal is read
        with self._database.read() as connection:
            own = workflows.of_owner(connection, self._owner)
        self._search_at = None
        long_ago, known = self._database.clock.now() - _FORGOTTEN_AFTER, known | self._present()
        forgotten = [row for row in own if row.uuid not in known and (row.created_at or long_ago) < long_ago]
        if forgotten:
            LOG.warning("%d operations go on that nobody knew to be stored", len(forgotten))
            self._go_on(forgotten)
        return len(forgotten)

    def _present(self) -> frozenset[str]:
        """Return the workflows that this process has under way, or will. The latter first: they become the former."""
        promised = self._runner.promised
        return promised | self._runner.known

    def take_handed_over(self) -> int:
        """Go on with workflows that other processes handed over or interrupted; return how many there are."""
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
        """Make the workflows that a batch leads ours, as far as nobody alive has them; go on with those that end."""
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
