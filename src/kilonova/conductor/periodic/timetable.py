# SPDX-License-Identifier: Apache-2.0
"""Which chores there are, and when each is done."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from kilonova.conductor.operations import Operations
from kilonova.periodic import PeriodicPart, PeriodicThread

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


@dataclass(frozen=True, slots=True)
class _Chore:
    """``some``: does some of what is older than ``age_s``, and returns how many those were; 0: that was all.

    ``every_s``: how often to look; None: every minute, and more often where that is long compared with the age.
    """

    name: str
    description: str
    some: Callable[[timedelta], int]
    age_s: float
    every_s: float | None = None


class Timetable(PeriodicPart):
    """The chores of one control process, a thread for each that is switched on. They end after a transaction.

    ``may_act``: whether this process counts as alive.
    """

    def __init__(self, operations: Operations, ages: Ages, may_act: Callable[[], bool]) -> None:
        self._may_act = may_act
        chores = _chores(operations, ages)
        super().__init__("chores", [self._thread_of(chore) for chore in chores if chore.age_s > 0])

    def _thread_of(self, chore: _Chore) -> PeriodicThread:
        age = timedelta(seconds=chore.age_s)

        def work_off() -> None:
            while self._may_act() and chore.some(age):
                if thread.rest(0):
                    return

        thread = PeriodicThread(
            chore.name,
            work_off,
            chore.every_s or min(_EVERY_S, max(_OFTENEST_S, chore.age_s / 10)),
            description=chore.description,
            complaint=f"A chore could not be done ({chore.name})",
        )
        return thread


def _chores(operations: Operations, ages: Ages) -> Iterator[_Chore]:
    if ages.offload_every_s >= 0:
        what, every_s = "Remove shelved servers from their hosts.", ages.offload_every_s or _EVERY_S
        yield _Chore("offload", what, operations.shelving.offload_due, ages.offload, every_s)
    what = "Delete for good what was soft-deleted long ago."
    yield _Chore("reclaim", what, operations.deletes.reclaim, ages.reclaim)
    what = "Give up builds that take too long."
    yield _Chore("build timeouts", what, operations.builds.time_out, ages.build)
    what = "Confirm resizes and cold migrations that have waited long enough."
    yield _Chore("resize confirmations", what, operations.moves.confirm_unconfirmed, ages.confirm)
    what = "Unrescue servers that were rescued long ago."
    yield _Chore("rescue timeouts", what, operations.rescues.unrescue_forgotten, ages.unrescue)
    what = "End soft reboots that hang."
    yield _Chore("hanging reboots", what, operations.power.end_hanging_reboots, ages.reboot)
    what = "Forget console tokens that have expired."
    yield _Chore("console tokens", what, operations.consoles.forget_expired, ages.console)
