# SPDX-License-Identifier: Apache-2.0
"""Which chores there are, and when each is done."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from kilonova.conductor.service import Conductor
from kilonova.periodic import PeriodicThread

#: As in Nova, what has no spacing of its own is done this often.
_EVERY_S = 60.0
_OFTENEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Ages:
    """For how many seconds each chore lets things be; 0 or less: for ever.

    ``reclaim``: soft-deleted servers. ``build``: builds. ``confirm``: resizes that nobody has confirmed.
    ``unrescue``: servers that are rescued. ``reboot``: soft reboots.
    ``console``: tokens of consoles, of which each says itself how long it counts.
    ``offload``: shelved ones, for which is looked every ``offload_every_s``; as
    in Nova, 0 stands for a minute, and a negative value for never.
    """

    reclaim: float = 0
    offload: float = 0
    offload_every_s: float = 0
    build: float = 0
    confirm: float = 0
    unrescue: float = 0
    reboot: float = 0
    console: float = 0


class Timetable:
    """The chores of one control process, a thread for each that is switched on."""

    def __init__(self, conductor: Conductor, patience: Ages) -> None:
        self._conductor = conductor
        self._threads = tuple(self._chores(patience))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the transactions under way."""
        for thread in self._threads:
            thread.ask_to_stop()
        for thread in self._threads:
            thread.stop()

    def _chores(self, patience: Ages) -> Iterator[PeriodicThread]:
        operations = self._conductor.operations
        if patience.offload > 0 and patience.offload_every_s >= 0:
            every_s = patience.offload_every_s or _EVERY_S
            yield self._chore("offload", operations.shelving.offload_due, patience.offload, every_s)
        chores: tuple[tuple[float, str, Callable[[timedelta], int]], ...] = (
            (patience.reclaim, "reclaim", operations.deletes.reclaim),
            (patience.build, "build timeouts", operations.builds.time_out),
            (patience.confirm, "resize confirmations", operations.moves.confirm_unconfirmed),
            (patience.unrescue, "rescue timeouts", operations.rescues.unrescue_forgotten),
            (patience.reboot, "hanging reboots", operations.power.end_hanging_reboots),
            (patience.console, "console tokens", operations.consoles.forget_expired),
        )
        for seconds, name, some in chores:
            if seconds > 0:
                yield self._chore(name, some, seconds)

    def _chore(
        self, name: str, some: Callable[[timedelta], int], seconds: float, every_s: float | None = None
    ) -> PeriodicThread:
        """Return the thread that does a chore, ``some`` of it at a time, for what is older than ``seconds``.

        Unless ``every_s`` says how often, it looks every minute, and more often where that is long compared with the
        patience.
        """
        patience = timedelta(seconds=seconds)

        def work_off() -> None:
            while self._conductor.runner.may_act and some(patience):
                if thread.rest(0):
                    return

        if every_s is None:
            every_s = min(_EVERY_S, max(_OFTENEST_S, seconds / 10))
        thread = PeriodicThread(name, work_off, every_s, complaint=f"A chore could not be done ({name})")
        return thread
