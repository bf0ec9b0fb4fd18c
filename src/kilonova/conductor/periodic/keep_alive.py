# SPDX-License-Identifier: Apache-2.0
"""What a control process does all along: say that it lives, and take up the work that others left or handed over."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from kilonova.claims.claimer import Claimer
from kilonova.conductor.hosts.heartbeats import WRITTEN_EVERY_S, Heartbeats
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

#: How soon a process notices what others handed over to it.
_LOOK_EVERY_S = 0.2
#: How often steps that broke are tried again and silent agents asked.
_TICK_S = 1.0
_LOG_KEPT = timedelta(hours=1)


class KeepAlive(PeriodicPart):
    """Threads that keep the lease of a control process, have steps that broke tried again, and note who is alive.

    ``claimer``: follows the decisions of other processes. ``heartbeats``: those of agent processes.
    ``liveness``: notices processes that are silent.
    ``announce``: has the agents of this process report their guests.
    ``report_interval_s``: how often this process says that it is alive, if its lease does not ask for more.
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
                    description="Renew the lease of this process, take over what dead processes left.",
                    complaint="The lease was not renewed",
                ),
                PeriodicThread(
                    "retries",
                    self.tick,
                    _TICK_S,
                    description="Try again the steps of workflows that broke, ask agents that have not replied.",
                    complaint="Nothing was tried again",
                ),
                PeriodicThread(
                    "task states",
                    runner.task_progress.write,
                    SHOWN_EVERY_S,
                    description="Write how far the tasks of servers are.",
                    complaint="The progress of tasks was not written",
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
                    description="Count the services of silent processes as down.",
                    complaint="Nobody looked for processes that are silent",
                    from_start=True,
                ),
            ),
        )

    def stop(self) -> None:
        self._heartbeats.close()
        super().stop()

    def renew(self) -> None:
        """Renew the lease, forget old changes, and try again what was left or broke."""
        self._process_lease.sign_of_life()
        self._return_to_life()
        self._database.write(self._forget_what_is_old)
        if not self._database.is_sole_process:
            self._claimer.keep_up()
            self._process_lease.resume()
        self.tick()

    def tick(self) -> None:
        """Try again what broke and is due; ask agents that should have replied by now."""
        self._process_lease.resume_later()
        self._process_lease.resume_unacknowledged()
        self._runner.retry_broken()
        self._runner.ask_overdue()

    def _forget_what_is_old(self, tx: Transaction) -> None:
        change_log.trim(tx, _LOG_KEPT)
        host_agents.forget_ended(tx, self._lease.duration)

    def _return_to_life(self) -> None:
        """Begin again where others may have taken over, because they have heard nothing of this process for so long."""
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
