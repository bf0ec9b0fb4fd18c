# SPDX-License-Identifier: Apache-2.0
"""What a control process does all along: say that it lives, and take up the work that others left or handed over."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from kilonova.conductor.hosts.heartbeats import WRITTEN_EVERY_S
from kilonova.conductor.hosts.service_liveness import ServiceLiveness
from kilonova.conductor.service import Conductor
from kilonova.conductor.workflow_engine.task_progress import SHOWN_EVERY_S
from kilonova.db import host_agents, services
from kilonova.db.core import change_log
from kilonova.db.core.transaction import Transaction
from kilonova.model.host import Service
from kilonova.periodic import PeriodicThread

LOG = logging.getLogger(__name__)

#: How soon a process notices what others handed over to it.
_LOOK_EVERY_S = 0.2
#: How often steps that broke are tried again and silent agents asked.
_TICK_S = 1.0
_LOG_KEPT = timedelta(hours=1)


class KeepAlive:
    """Threads that keep the lease of a conductor, have steps that broke tried again, and note who is alive.

    ``binaries``: the services that operators look for.
    ``announce``: has the agents of this process report their guests.
    ``report_interval_s``: how often this process says that it is alive, if its lease does not ask for more.
    ``down_time``: for how long a process may say nothing before its services count as down; ``hears``: whether this
    one would hear agents now.
    """

    def __init__(
        self,
        conductor: Conductor,
        binaries: Sequence[str],
        announce: Callable[[], None] = lambda: None,
        *,
        report_interval_s: float = 10.0,
        down_time: timedelta = timedelta(seconds=60),
        hears: Callable[[], bool] = lambda: True,
    ) -> None:
        self._conductor = conductor
        self._database = conductor.database
        silence = ServiceLiveness(conductor.database, down_time, listener=conductor.owner, hears=hears)
        self._binaries = tuple(binaries)
        self._announce = announce
        self._renew_every_s = min(conductor.lease.renewal_s, report_interval_s)
        self._next_renewal = time.monotonic() + self._renew_every_s
        look_every_s = (
            self._renew_every_s if self._database.is_sole_process else min(_LOOK_EVERY_S, self._renew_every_s)
        )
        self._threads = (
            PeriodicThread("leases", self._look, look_every_s, complaint="The lease was not renewed"),
            PeriodicThread("retries", self.tick, _TICK_S, complaint="Nothing was tried again"),
            PeriodicThread(
                "task states",
                conductor.runner.task_progress.write,
                SHOWN_EVERY_S,
                complaint="The progress of tasks was not written",
            ),
            PeriodicThread(
                "heartbeats",
                conductor.heartbeats.write,
                min(WRITTEN_EVERY_S, conductor.lease.renewal_s / 2),
                complaint="Heartbeats were not written",
            ),
            PeriodicThread(
                "silence",
                silence.look,
                silence.look_every_s,
                complaint="Nobody looked for processes that are silent",
                from_start=True,
            ),
        )

    def register(self) -> None:
        """Show this process under the service names that operators look for."""

        def register(tx: Transaction) -> list[Service]:
            there = [services.ensure(tx, self._conductor.process.machine, binary) for binary in self._binaries]
            return [service for service in there if service.created_at == tx.now]

        new = self._database.write(register)
        if new:
            self._conductor.listeners.new_services(new)

    def start(self) -> None:
        """Begin to renew leases, to adopt the workflows of dead processes, and to try again what broke."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._conductor.heartbeats.close()
        for thread in self._threads:
            thread.stop()

    def renew(self) -> None:
        """Renew the lease, forget old changes, and try again what was left or broke."""
        self._conductor.membership.sign_of_life()
        self._return_to_life()
        self._database.write(self._forget_what_is_old)
        if not self._database.is_sole_process:
            self._conductor.claimer.keep_up()
            self._conductor.membership.resume()
        self.tick()

    def tick(self) -> None:
        """Try again what broke and is due; ask agents that should have replied by now."""
        self._conductor.membership.resume_later()
        self._conductor.membership.find_forgotten()
        self._conductor.runner.retry_broken()
        self._conductor.runner.ask_overdue()

    def _forget_what_is_old(self, tx: Transaction) -> None:
        change_log.trim(tx, _LOG_KEPT)
        host_agents.forget_ended(tx, self._conductor.lease.duration)

    def _return_to_life(self) -> None:
        """Begin again where others may have taken over, because they have heard nothing of this process for so long."""
        if self._conductor.runner.may_act:
            return
        LOG.warning(
            "This process gave no sign of life for longer than its lease of %s; its hosts report their guests again",
            self._conductor.lease.duration,
        )
        self._conductor.membership.enter(self._announce)

    def _look(self) -> None:
        self._return_to_life()
        if not self._database.is_sole_process:
            self._conductor.membership.take_inheritance()
        if time.monotonic() >= self._next_renewal:
            self._next_renewal = time.monotonic() + self._renew_every_s
            self.renew()
