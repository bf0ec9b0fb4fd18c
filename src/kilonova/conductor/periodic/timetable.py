# SPDX-License-Identifier: Apache-2.0
"""The periodic tasks and their intervals."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from kilonova.conductor.operations import Operations
from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.records import dataclass

#: Default interval in seconds, as in Nova.
_EVERY_S = 60.0
_OFTENEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Ages:
    """Ages in seconds after which the periodic tasks handle a server; an age of 0 or less disables the task.

    ``reclaim``: age of soft deletes. ``build``: age of builds. ``confirm``: age of unconfirmed resizes.
    ``unrescue``: age of rescues. ``reboot``: age of soft reboots. ``console``: configured lifetime of console tokens;
    the task deletes each token after that token's own expiry. ``networks``: age of cached network interfaces.
    ``offload``: age of shelved servers. ``offload_every_s``: interval of the offload task; as in Nova, 0 means one
    minute, and a negative interval disables the task.
    """

    reclaim: float = 0
    offload: float = 0
    offload_every_s: float = 0
    build: float = 0
    confirm: float = 0
    unrescue: float = 0
    reboot: float = 0
    console: float = 0
    networks: float = 0


@dataclass(frozen=True, slots=True)
class _PeriodicTask:
    """One periodic task.

    ``some``: handles a batch of items older than ``age_s`` and returns their number; 0 if no such items are left.
    ``every_s``: interval of the task in seconds; None for one minute, or for a tenth of ``age_s`` if that is shorter.
    """

    name: str
    description: str
    some: Callable[[timedelta], int]
    age_s: float
    every_s: float | None = None


class Timetable(PeriodicPart):
    """The enabled periodic tasks of one control process. Each task has a thread.

    When the process stops, a running task ends after its current transaction. ``may_act``: returns whether this process
    holds its lease.
    """

    def __init__(self, operations: Operations, ages: Ages, may_act: Callable[[], bool]) -> None:
        self._may_act = may_act
        periodic_tasks = _tasks(operations, ages)
        super().__init__("periodic-tasks", [self._thread_of(task) for task in periodic_tasks if task.age_s > 0])

    def _thread_of(self, task: _PeriodicTask) -> PeriodicThread:
        age = timedelta(seconds=task.age_s)

        def work_off() -> None:
            while self._may_act() and task.some(age):
                if thread.rest(0):
                    return

        thread = PeriodicThread(
            task.name,
            work_off,
            task.every_s or min(_EVERY_S, max(_OFTENEST_S, task.age_s / 10)),
            description=task.description,
            complaint=f"Periodic task {task.name} failed",
        )
        return thread


def _tasks(operations: Operations, ages: Ages) -> Iterator[_PeriodicTask]:
    if ages.offload_every_s >= 0:
        what, every_s = "Remove shelved servers from their hosts.", ages.offload_every_s or _EVERY_S
        yield _PeriodicTask("offload", what, operations.shelving.offload_due, ages.offload, every_s)
    what = "Delete servers whose soft delete is older than the reclaim interval."
    yield _PeriodicTask("reclaim", what, operations.deletes.reclaim, ages.reclaim)
    what = "Fail builds that exceed their timeout."
    yield _PeriodicTask("build timeouts", what, operations.builds.time_out, ages.build)
    what = "Confirm resizes and cold migrations automatically after their waiting time."
    yield _PeriodicTask("resize confirmations", what, operations.moves.confirm_unconfirmed, ages.confirm)
    what = "Unrescue servers automatically after the rescue timeout."
    yield _PeriodicTask("rescue timeouts", what, operations.rescues.unrescue_forgotten, ages.unrescue)
    what = "End soft reboots that exceed their timeout."
    yield _PeriodicTask("hanging reboots", what, operations.power.end_hanging_reboots, ages.reboot)
    what = "Look up the ports of servers whose cached interfaces are old."
    yield _PeriodicTask("network caches", what, operations.network_caches.renew_old, ages.networks)
    what = "Delete expired console tokens."
    yield _PeriodicTask("console tokens", what, operations.consoles.forget_expired, ages.console)
