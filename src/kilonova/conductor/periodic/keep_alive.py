# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks that keep a control process alive: lease renewal, takeover, retries, heartbeats, liveness checks."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from kilonova.claims.claimer import Claimer
from kilonova.conductor.hosts.heartbeats import WRITTEN_EVERY_S, Heartbeats
from kilonova.conductor.hosts.service_group import DeclaredHosts
from kilonova.conductor.hosts.service_liveness import ServiceLiveness
from kilonova.conductor.workflow_engine.process_lease import ProcessLease
from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.conductor.workflow_engine.task_progress import SHOWN_EVERY_S
from kilonova.db import host_agents
from kilonova.db.core import change_log
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.lease import Lease
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)

#: Interval in seconds at which a process polls the database for workflows that were handed over to this process.
_LOOK_EVERY_S = 0.2
#: Interval in seconds of retries, of queries to agents whose replies are overdue, and of queries for awaited events.
_TICK_S = 1.0
_LOG_KEPT = timedelta(hours=1)


class KeepAlive(PeriodicPart):
    """Threads that renew the lease of a control process, retry broken steps and write heartbeats.

    ``claimer``: the claimer, whose mirror is made to follow the changes of other processes. ``heartbeats``: heartbeats
    of agent processes. ``liveness``: marks silent processes as down. ``declared``: writes which hosts the
    service-group driver declares down; None without a driver. ``announce``: makes the agents of this process
    report their guests. ``report_interval_s``: maximum interval of this process's heartbeats; a short lease shortens
    the interval.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        process_lease: ProcessLease,
        runner: Runner,
        claimer: Claimer,
        heartbeats: Heartbeats,
        liveness: ServiceLiveness,
        declared: DeclaredHosts | None,
        *,
        announce: Callable[[], None] = lambda: None,
        report_interval_s: float = 10.0,
    ) -> None:
        self._database = database
        self._lease = lease
        self._process_lease = process_lease
        self._runner = runner
        self._claimer = claimer
        self._heartbeats = heartbeats
        self._announce = announce
        self._renew_every_s = min(lease.renewal_s, report_interval_s)
        self._next_renewal = time.monotonic() + self._renew_every_s
        look_every_s = self._renew_every_s if database.is_sole_process else min(_LOOK_EVERY_S, self._renew_every_s)
        super().__init__(
            "keep-alive",
            (
                PeriodicThread(
                    "leases",
                    self._look,
                    look_every_s,
                    description="Renew the lease of this process, take over the workflows of dead processes.",
                    complaint="The lease was not renewed",
                ),
                PeriodicThread(
                    "retries",
                    self.tick,
                    _TICK_S,
                    description="Retry broken steps, ask agents for overdue replies, look for awaited events.",
                    complaint="Retries failed",
                ),
                PeriodicThread(
                    "task states",
                    runner.task_progress.write,
                    SHOWN_EVERY_S,
                    description="Write the task states that agents have reached.",
                    complaint="Task states were not written",
                ),
                PeriodicThread(
                    "heartbeats",
                    heartbeats.write,
                    min(WRITTEN_EVERY_S, lease.renewal_s / 2),
                    description="Write the heartbeats of agent processes.",
                    complaint="Heartbeats were not written",
                ),
                PeriodicThread(
                    "silence",
                    liveness.look,
                    liveness.look_every_s,
                    description="Mark the services of silent processes as down.",
                    complaint="The liveness check failed",
                    from_start=True,
                ),
                *(() if declared is None else (_declarations(declared, liveness.look_every_s),)),
            ),
        )

    def stop(self) -> None:
        self._heartbeats.close()
        super().stop()

    def renew(self) -> None:
        """Renew the lease, take over workflows and run retries.

        Also delete the rows of ended processes and old rows of the change log.
        """
        self._process_lease.sign_of_life()
        self._return_to_life()
        self._database.write(self._forget_what_is_old)
        if not self._database.is_sole_process:
            self._claimer.keep_up()
            self._process_lease.resume()
        self.tick()

    def tick(self) -> None:
        """Retry broken workflows after their back-off, query agents with overdue replies, look for awaited events."""
        self._process_lease.resume_later()
        self._process_lease.resume_unacknowledged()
        self._runner.retry_broken()
        self._runner.ask_overdue()
        self._runner.look_for_events()

    def _forget_what_is_old(self, tx: Transaction) -> None:
        change_log.trim(tx, _LOG_KEPT)
        host_agents.forget_ended(tx, self._lease.duration)

    def _return_to_life(self) -> None:
        """If the lease has expired, register this process again: other processes may have taken over its workflows."""
        if self._runner.may_act:
            return
        LOG.warning(
            "This process gave no sign of life for longer than its lease of %s; its hosts report their guests again",
            self._lease.duration,
        )
        self._process_lease.enter(self._announce)

    def _look(self) -> None:
        self._return_to_life()
        if not self._database.is_sole_process:
            self._process_lease.take_handed_over()
        if time.monotonic() >= self._next_renewal:
            self._next_renewal = time.monotonic() + self._renew_every_s
            self.renew()


def _declarations(declared: DeclaredHosts, every_s: float) -> PeriodicThread:
    return PeriodicThread(
        "service group",
        declared.look,
        every_s,
        description="Write which hosts the service-group driver declares down.",
        complaint="The states of hosts were not written",
        from_start=True,
    )
