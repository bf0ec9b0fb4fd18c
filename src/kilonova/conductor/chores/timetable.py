# SPDX-License-Identifier: Apache-2.0
"""Which chores there are, and when each is done."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from kilonova.conductor.service import Conductor
from kilonova.config.chores import ChoreSettings
from kilonova.periodic import PeriodicThread

#: As in Nova, what has no spacing of its own is done this often.
_EVERY_S = 60.0
_OFTENEST_S = 1.0


class Timetable:
    """The chores of one control process, a thread for each that is switched on."""

    def __init__(self, conductor: Conductor, settings: ChoreSettings) -> None:
        self._conductor = conductor
        self._threads = tuple(self._chores(settings))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the transactions under way."""
        for thread in self._threads:
            thread.ask_to_stop()
        for thread in self._threads:
            thread.stop()

    def _chores(self, settings: ChoreSettings) -> Iterator[PeriodicThread]:
        deletes = self._conductor.operations.deletes
        if settings.reclaim_instance_interval_s > 0:
            interval = timedelta(seconds=settings.reclaim_instance_interval_s)
            yield self._chore("reclaim", lambda: deletes.reclaim(interval), interval, "Nothing was reclaimed")

    def _chore(self, name: str, some: Callable[[], int], patience: timedelta, complaint: str) -> PeriodicThread:
        """Return the thread that does a chore, ``some`` of it at a time, for what has waited for ``patience``.

        It looks every minute, and more often where that is long compared with the patience.
        """

        def work_off() -> None:
            while self._conductor.runner.may_act and some():
                if thread.rest(0):
                    return

        every_s = min(_EVERY_S, max(_OFTENEST_S, patience.total_seconds() / 10))
        thread = PeriodicThread(name, work_off, every_s, complaint=complaint)
        return thread
