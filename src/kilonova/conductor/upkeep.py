# SPDX-License-Identifier: Apache-2.0
"""What a control process does all along: say that it lives, and take up the work that others left or handed over."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from kilonova.conductor.service import Conductor
from kilonova.db import change_log, services
from kilonova.db.transaction import Transaction
from kilonova.periodic import PeriodicThread

LOG = logging.getLogger(__name__)

#: Where no other process can live.
_RENEW_EVERY_S = 15.0
#: How soon a process notices what others handed over to it.
_LOOK_EVERY_S = 0.2
#: How often steps that broke are tried again and silent agents asked.
_TICK_S = 1.0
_LOG_KEPT = timedelta(hours=1)


class Upkeep:
    """Keeps the lease of a conductor, on one thread, and has steps that broke tried again, on another.

    ``host``, ``binaries``: the process as operators look for it. ``announce``: has the agents of this process report
    their guests.
    """

    def __init__(
        self, conductor: Conductor, host: str, binaries: Sequence[str], announce: Callable[[], None] = lambda: None
    ) -> None:
        self._conductor = conductor
        self._database = conductor.database
        self._host = host
        self._binaries = tuple(binaries)
        self._announce = announce
        is_sole = self._database.is_sole_process
        self._renew_every_s = _RENEW_EVERY_S if is_sole else conductor.lease.renewal_s
        self._next_renewal = time.monotonic() + self._renew_every_s
        look_every_s = self._renew_every_s if is_sole else min(_LOOK_EVERY_S, self._renew_every_s)
        self._thread = PeriodicThread("leases", self._look, look_every_s, complaint="The lease was not renewed")
        self._retries = PeriodicThread("retries", self.tick, _TICK_S, complaint="Nothing was tried again")

    def register(self) -> None:
        """Show this process under the service names that operators look for."""

        def register(tx: Transaction) -> None:
            for binary in self._binaries:
                services.ensure(tx, self._host, binary)
            services.record_heartbeats(tx, [self._host], binaries=self._binaries)

        self._database.write(register)

    def start(self) -> None:
        """Begin to renew leases, to adopt the workflows of dead processes, and to try again what broke."""
        self._thread.start()
        self._retries.start()

    def stop(self) -> None:
        self._thread.stop()
        self._retries.stop()

    def renew(self) -> None:
        """Renew the lease, forget old changes, and try again what was left or broke."""
        self._conductor.membership.sign_of_life()
        self._return_to_life()
        self._database.write(lambda tx: services.record_heartbeats(tx, [self._host], binaries=self._binaries))
        self._database.write(lambda tx: change_log.trim(tx, _LOG_KEPT))
        if not self._database.is_sole_process:
            self._conductor.claimer.keep_up()
            self._conductor.membership.resume()
        self.tick()

    def tick(self) -> None:
        """Try again what broke and is due; ask agents that should have replied by now."""
        self._conductor.runner.retry_broken()
        self._conductor.runner.ask_overdue()

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
