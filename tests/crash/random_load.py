# SPDX-License-Identifier: Apache-2.0
"""Random load on the core: servers are created, deleted, powered, moved and interrupted; some requests fail.

Each accepted request is written to a file before the next one; it must hold after any kill.
"""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from crash.starters import OTHER_IMAGE
from kilonova.db import instance_lists, instances
from kilonova.errors import KilonovaError
from kilonova.model.flavor import Flavor
from kilonova.model.instance import TaskState, VmState
from kilonova.scenario.model import SimulatedCell, SimulatedHost
from support.cell import IMAGE, Cell, host

PINNED = Flavor("3", "pinned", vcpus=2, memory_mib=512, root_gib=1, extra_specs={"hw:cpu_policy": "dedicated"})
FLAVORS = (
    Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1),
    Flavor("2", "m1.small", vcpus=2, memory_mib=1024, root_gib=2),
    PINNED,
)
_CLIENTS = 4
_SERVERS = 12
_MADE, _ASKED_GONE, _GONE = "made", "asked-gone", "gone"


def hosts(rng: random.Random) -> tuple[SimulatedHost, ...]:
    """Return four hosts; half of them have dedicated CPUs, some fail occasionally."""
    numa = (SimulatedCell(8192, cpus="0-7", dedicated="8-15", pages={"4": 2_097_152}),)

    def one(number: int) -> SimulatedHost:
        return host(
            f"node{number}",
            vcpus=8,
            memory_mib=8192,
            numa=numa if number % 2 else (),
            spawn_delay_s=rng.choice([0.0, 0.0, 0.02]),
            shutdown_delay_s=rng.choice([0.0, 0.0, 0.03, -1.0]),
            start_delay_s=rng.choice([0.0, 0.0, 0.02]),
            destroy_delay_s=rng.choice([0.0, 0.0, 0.02]),
            move_delay_s=rng.choice([0.0, 0.01, 0.03]),
            live_migration_s=rng.choice([0.0, 0.05, 0.2]),
            failing_spawns=rng.choice([0, 0, 1, 2]),
            failing_moves=rng.choice([0, 0, 1, -1]),
            failing_live_migrations=rng.choice([0, 0, 1]),
            snapshot_delay_s=rng.choice([0.0, 0.0, 0.02]),
            failing_snapshots=rng.choice([0, 0, 1]),
        )

    return tuple(one(number) for number in range(4))


class Promises:
    """Accepted requests, in a file that survives kills of the process."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "promises"
        self._lock = threading.Lock()

    def note(self, what: str, *uuids: str) -> None:
        with self._lock, self._file.open("a") as out:
            out.write("".join(f"{what} {uuid}\n" for uuid in uuids))
            out.flush()
            os.fsync(out.fileno())


def check_promises(present: set[str], *folders: Path) -> None:
    """Check the existing servers. Raises: AssertionError if an undeleted server is gone or a deleted one exists."""
    told: dict[str, set[str]] = {_MADE: set(), _ASKED_GONE: set(), _GONE: set()}
    for file in (folder / "promises" for folder in folders):
        for line in file.read_text().splitlines() if file.exists() else ():
            what, uuid = line.split()
            told[what].add(uuid)
    assert told[_MADE] - told[_ASKED_GONE] <= present, "a created server is gone without a delete"
    assert not told[_GONE] & present, "a deleted server still exists"


class Load:
    """Clients of one process; each is a thread that sends random requests."""

    def __init__(self, cell: Cell, groups: list[str], seed: str) -> None:
        self._cell = cell
        self._groups = groups
        self._promises = Promises(cell.folder)
        self._seed = seed

    def run(self, seconds: float) -> None:
        """Send requests for ``seconds``."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(number, until)) for number in range(_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, number: int, until: float) -> None:
        rng = random.Random(f"{self._seed}-{number}")
        while time.monotonic() < until:
            with contextlib.suppress(KilonovaError):  # the server is locked by another operation, or deleted
                self._ask(rng)
            time.sleep(rng.choice([0.0, 0.002, 0.02]))

    def _ask(self, rng: random.Random) -> None:
        with self._cell.database.read() as connection:
            known = [each.uuid for each in instance_lists.list_page(connection, instance_lists.InstanceQuery())]
        if len(known) < rng.randrange(_SERVERS):
            count = rng.choice([1, 1, 2, 3])
            group = rng.choice([None, None, *self._groups])
            has_drive = rng.choice([True, False])
            made = self._cell.boot(count, flavor=rng.choice(FLAVORS), group=group, config_drive=has_drive)
            self._promises.note(_MADE, *made)
            return
        if not known:
            return
        uuid = rng.choice(known)
        act = rng.choices(list(_ACTS), list(_ACTS.values()))[0]
        if act is Cell.delete:
            self._promises.note(_ASKED_GONE, uuid)
            self._cell.delete(uuid)
            if not self._is_kept(uuid):  # a delete during a soft delete is ignored, and the server is kept
                self._promises.note(_GONE, uuid)
        elif act is _soft_delete:  # a soft delete is permanent if the server cannot be kept
            self._promises.note(_ASKED_GONE, uuid)
            self._cell.delete(uuid, soft=True)
        else:
            act(self._cell, uuid, rng)

    def _is_kept(self, uuid: str) -> bool:
        with self._cell.database.read() as connection:
            server = instances.find(connection, uuid)
        return server is not None and server.task_state is not TaskState.DELETING


Act = Callable[..., None]


def _power(cell: Cell, uuid: str, rng: random.Random) -> None:
    cell.power(uuid, rng.choice(["start", "stop", "reboot", "hard-reboot"]))


def _still(cell: Cell, uuid: str, rng: random.Random) -> None:
    """Pause or suspend a server, or resume one."""
    kind, back = rng.choice([("pause", VmState.PAUSED), ("suspend", VmState.SUSPENDED)])
    waiting = _in_state(cell, back)
    if waiting and rng.random() < 0.6:
        kind, uuid = {"pause": "unpause", "suspend": "resume"}[kind], rng.choice(waiting)
    cell.power(uuid, kind)


def _help(cell: Cell, uuid: str, rng: random.Random) -> None:
    """Rescue a server, unrescue one, or run an action inside its guest."""
    rescued = _in_state(cell, VmState.RESCUED)
    if rescued and rng.random() < 0.6:
        cell.unrescue(rng.choice(rescued))
    else:
        rng.choice([Cell.rescue, Cell.rescue, Cell.change_password, Cell.crash_dump])(cell, uuid)


def _resize(cell: Cell, uuid: str, rng: random.Random) -> None:
    cell.resize(uuid, rng.choice(FLAVORS), stays=rng.random() < 0.5)


def _end_resize(cell: Cell, uuid: str, rng: random.Random) -> None:
    resized = _in_state(cell, VmState.RESIZED) or [uuid]
    rng.choice([Cell.confirm, Cell.revert])(cell, rng.choice(resized))


def _move(cell: Cell, uuid: str, rng: random.Random) -> None:
    rng.choice([Cell.migrate, Cell.live_migrate])(cell, uuid)


def _live_migrate_and_interrupt(cell: Cell, uuid: str, rng: random.Random) -> None:
    cell.live_migrate(uuid)
    time.sleep(rng.choice([0.0, 0.01, 0.05]))
    rng.choice([Cell.abort, Cell.abort, Cell.force_complete])(cell, uuid)


def _make_image(cell: Cell, uuid: str, rng: random.Random) -> None:
    if rng.random() < 0.5:
        cell.create_image(uuid)
    else:
        cell.create_backup(uuid, rng.choice([0, 1, 2]))


def _rebuild(cell: Cell, uuid: str, rng: random.Random) -> None:
    cell.rebuild(uuid, rng.choice([IMAGE, OTHER_IMAGE]), user_data=rng.choice([None, "aGk="]))


def _evacuate(cell: Cell, uuid: str, rng: random.Random) -> None:
    """Evacuate a server from a live host, even if another operation is running."""
    cell.evacuate(uuid, stops=rng.random() < 0.2)


def _in_state(cell: Cell, state: VmState) -> list[str]:
    with cell.database.read() as connection:
        page = instance_lists.list_page(connection, instance_lists.InstanceQuery(soft_deleted=True))
    return [each.uuid for each in page if each.vm_state is state]


def _soft_delete(cell: Cell, uuid: str, _rng: random.Random) -> None:
    cell.delete(uuid, soft=True)


def _end_soft_delete(cell: Cell, _uuid: str, rng: random.Random) -> None:
    """Restore a soft-deleted server, delete it permanently, or reclaim all of them."""
    for uuid in _in_state(cell, VmState.SOFT_DELETED)[:1]:
        rng.choice([Cell.restore, Cell.restore, Cell.force_delete, lambda cell, _uuid: cell.reclaim()])(cell, uuid)


def _shelve(cell: Cell, uuid: str, rng: random.Random) -> None:
    """Shelve a server, or unshelve one."""
    here, away = _in_state(cell, VmState.SHELVED), _in_state(cell, VmState.SHELVED_OFFLOADED)
    if (here or away) and rng.random() < 0.6:
        if here and rng.random() < 0.5:
            cell.offload(rng.choice(here))
        else:
            cell.unshelve(rng.choice(here + away))
    else:
        cell.shelve(uuid, offload=rng.random() < 0.5)


def _cache_image(cell: Cell, _uuid: str, _rng: random.Random) -> None:
    cell.cache_image()


#: Relative frequency of each request.
_ACTS: Mapping[Act, int] = {
    Cell.delete: 3,
    _soft_delete: 3,
    _end_soft_delete: 3,
    _power: 4,
    _still: 4,
    _help: 4,
    _resize: 5,
    _end_resize: 6,
    _move: 4,
    _live_migrate_and_interrupt: 4,
    _rebuild: 3,
    _evacuate: 4,
    _make_image: 4,
    _shelve: 6,
    _cache_image: 1,
}
