# SPDX-License-Identifier: Apache-2.0
"""The jobs of one control process: it claims queued jobs, runs each in a process, and stores progress and results.

::

    POST /jobs ─▶ queued ─claim─▶ running ─┬─ result ─▶ done
                     ▲                     ├─ failure, death of its process, timeout ─▶ failed
                     │                     └─ DELETE ─▶ cancelled
                     └─ the control process stops, or dies the first time
"""

import contextlib
import logging
import os
import selectors
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from kilonova.conductor.jobs.running_job import RunningJob
from kilonova.db import jobs
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.jobs import ClaimedJob
from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicThread
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
_UPKEEP_EVERY_S = 15.0
_CANNOT_START = "The process of the job could not be started: {}."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Limits of the jobs of one control process, and of the finished jobs that are kept.

    ``workers``: number of jobs that run at the same time. ``longest_s``: time after which a job fails. ``kept``,
    ``kept_for``: number and age of the finished jobs that are kept.
    """

    workers: int = 1
    longest_s: float = 3600.0
    kept: int = 200
    kept_for: timedelta = timedelta(days=7)


class JobQueue:
    """Part of a control process that runs jobs. ``command``: starts a job's process. ``may_act``: whether it may.

    One thread starts the processes, listens to them and kills them; it has to outlive them (``running_job.py``).
    """

    name = "jobs"

    def __init__(
        self,
        database: Database,
        owner: str,
        command: Sequence[str],
        limits: JobLimits,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database = database
        self._owner = owner
        self._command = tuple(command)
        self._limits = limits
        self._may_act = may_act
        self._running: dict[str, RunningJob] = {}
        self._is_stopping = False
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_closed = False
        self._closing = threading.Lock()
        self._looked_at = float("-inf")
        self._told: str | None = None
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._upkeep = PeriodicThread(
            "jobs",
            self.tidy,
            _UPKEEP_EVERY_S,
            description="Take over the jobs of ended control processes, and delete old jobs.",
            complaint="Jobs were not tidied up",
            from_start=True,
        )
        self.periodic_threads = (self._upkeep,)

    @property
    def process_ids(self) -> dict[str, int]:
        """Job → process id of its process."""
        return {uuid: running.process.pid for uuid, running in list(self._running.items())}

    def start(self) -> None:
        self._thread.start()
        self._upkeep.start()

    def wake(self) -> None:
        """Look for queued and cancelled jobs now."""
        with self._closing:
            if not self._is_closed:
                os.eventfd_write(self._wakeup, 1)

    def stop(self) -> None:
        """Kill the processes of the running jobs, and queue these jobs again."""
        self._upkeep.ask_to_stop()
        self._is_stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._upkeep.stop()
        with self._closing:
            self._is_closed = True
            os.close(self._wakeup)

    def tidy(self) -> None:
        """Take over the jobs of ended control processes, and delete finished jobs beyond the limits."""
        now = self._database.clock.now()
        with self._database.read() as connection:
            has_orphans = bool(jobs.orphans(connection, now))
            surplus = jobs.surplus(connection, now - self._limits.kept_for, kept=self._limits.kept)
        if has_orphans:
            for uuid in self._database.write_unless_away(jobs.take_over):
                LOG.warning("Job %s begins again: its control process has ended", uuid)
            self.wake()
        if surplus:
            self._database.write_unless_away(lambda tx: jobs.remove(tx, surplus))

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._attend()
        finally:
            self._give_all_back()

    def _attend(self) -> None:
        try:
            self._wait()
            for running in self._running.values():
                if running.outcome is None:
                    running.listen()
                if time.monotonic() - running.began > self._limits.longest_s:
                    running.stop(f"The job took longer than {self._limits.longest_s:g} s.")
            if self._looked_at + _LOOK_EVERY_S <= time.monotonic():
                self._looked_at = time.monotonic()
                self._obey()
                self._store_progress()
                self._claim()
            self._store_outcomes()
            self._told = None
        except Unavailable as error:
            if error.message != self._told:
                LOG.warning("Jobs wait for the database: %s", error.message)
            self._told = error.message
            time.sleep(_LOOK_EVERY_S)
        except Exception:
            LOG.exception("Jobs could not be attended to")
            time.sleep(_LOOK_EVERY_S)

    def _wait(self) -> None:
        """Wait until a process has sent something, or a look into the database is due or requested."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wakeup, selectors.EVENT_READ)
            for running in self._running.values():
                if running.outcome is None:
                    selector.register(running.reports, selectors.EVENT_READ)
                if running.has_orders_left:
                    selector.register(running.orders_to, selectors.EVENT_WRITE)
            for key, _ in selector.select(max(0.0, self._looked_at + _LOOK_EVERY_S - time.monotonic())):
                if key.fd == self._wakeup:
                    os.eventfd_read(self._wakeup)
                    self._looked_at = float("-inf")
        for running in self._running.values():
            running.send_orders()

    def _obey(self) -> None:
        """Kill the processes of jobs that are cancelled, or that another control process has taken over.

        Jobs of this control process that have no process, because the answer to a claim was lost, are queued again.
        """
        with self._database.read() as connection:
            orders = jobs.orders(connection, self._owner)
        for uuid, running in list(self._running.items()):
            if orders.get(uuid) is False:
                continue
            running.kill()
            self._write(partial(jobs.note_cancelled, owner=self._owner, job=running.job))
            self._forget(running)
        if orders.keys() - self._running.keys():
            present = list(self._running)
            self._database.write_unless_away(lambda tx: jobs.give_lost_back(tx, self._owner, present))

    def _store_progress(self) -> None:
        for running in self._running.values():
            told, running.progress = running.progress, None
            if told is not None:
                done, message = told
                self._write(
                    partial(jobs.note_progress, owner=self._owner, job=running.job, progress=done, message=message)
                )

    def _store_outcomes(self) -> None:
        for running in [each for each in self._running.values() if each.outcome is not None]:
            self._write(partial(_store, owner=self._owner, running=running))
            self._forget(running)
            self._looked_at = float("-inf")  # a worker is free for the next job

    def _claim(self) -> None:
        free = self._limits.workers - len(self._running)
        if free <= 0 or self._is_stopping or not self._may_act():
            return
        with self._database.read() as connection:
            if not jobs.has_queued(connection):
                return
        for job in self._database.write_unless_away(lambda tx: jobs.claim(tx, self._owner, free)):
            self._begin(job)

    def _begin(self, job: ClaimedJob) -> None:
        try:
            self._running[job.uuid] = RunningJob.start(self._command, job)
        except OSError as error:
            reason = _CANNOT_START.format(error.strerror)
            self._write(lambda tx: jobs.fail(tx, self._owner, job, reason))

    def _forget(self, running: RunningJob) -> None:
        running.close()
        self._running.pop(running.job.uuid, None)

    def _give_all_back(self) -> None:
        for running in list(self._running.values()):
            self._forget(running)
            with contextlib.suppress(Unavailable):
                self._write(partial(jobs.give_back, owner=self._owner, job=running.job))

    def _write(self, job: Callable[[Transaction], bool]) -> bool:
        return self._database.write_unless_away(job)


def _store(tx: Transaction, owner: str, running: RunningJob) -> bool:
    outcome = running.outcome
    assert outcome is not None
    if outcome.result is not None:
        return jobs.finish(tx, owner, running.job, outcome.result)
    return jobs.fail(tx, owner, running.job, outcome.failure or "")
