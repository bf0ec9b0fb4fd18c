# SPDX-License-Identifier: Apache-2.0
"""Two processes on one PostgreSQL or MariaDB: one is killed at random, and the other takes over its workflows.

python -m crash.pair DATABASE_URL [--kills N] [--seed N]
"""

import argparse
import gc
import logging
import random
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from crash import cloud, random_load
from crash.points import Watch
from crash.processes import Child, in_child
from kilonova.cli.wiring.core import keep_alive
from kilonova.config.compute import ComputeSettings
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.lease import Lease
from support.cell import Cell
from support.mirrors import assert_follows
from support.waiting import wait_until
from support.world import check_guests, check_world, guests_on_disk

_LEASE = timedelta(seconds=1.5)
_AT_MOST_S = 90.0
_ALONE_S = 4.0


def _open(folder: Path, seed: str, half: int, url: str) -> Cell:
    hosts = random_load.hosts(random.Random(seed))[2 * half : 2 * half + 2]
    options = {"lease": Lease(_LEASE), "pause_s": lambda tries: min(2.0, 0.3 * tries)}
    cell = cloud.open_cell(folder, hosts, Watch(), url=url, **options)
    keep_alive(cell.conductor, cell.bus, ComputeSettings(), cell.announce).start()
    return cell


def _load(cell: Cell, seed: str, seconds: float) -> None:
    groups = cell.folder.parent / "groups"
    random_load.Load(cell, groups.read_text().split(), seed).run(seconds)


def _survive(folder: Path, seed: str, half: int, url: str, seconds: float) -> int:
    """Work, outlive the killed process, take over its workflows and come to rest; return how many there were."""
    cell = _open(folder, seed, half, url)
    _load(cell, f"{seed}-{half}", seconds + _ALONE_S)
    owners = sa.select(t.workflows.c.owner).distinct()

    def is_alone() -> bool:
        with cell.database.read() as connection:
            return set(connection.execute(owners).scalars()) <= {cell.conductor.owner}

    wait_until(is_alone, "the workflows of the dead process to be taken over", at_most_s=20)
    (folder / "alone").touch()
    return _rest(cell)


def _return(folder: Path, seed: str, half: int, url: str) -> int:
    return _rest(_open(folder, seed, half, url))


def _work(folder: Path, seed: str, half: int, url: str) -> None:
    _load(_open(folder, seed, half, url), f"{seed}-{half}", 60.0)


def _rest(cell: Cell) -> int:
    """Wait until both processes have no workflows and have cleaned up."""
    cloud.come_to_rest(cell, at_most_s=60.0)
    time.sleep(2.0)
    cloud.come_to_rest(cell)
    assert cell.mirror.assumed() == ()
    assert_follows(cell.mirror, cell.database)
    return 0


def _look(folder: Path, url: str) -> None:
    database = Database(url)
    places = [folder / str(half) / "hypervisors" for half in (0, 1)]
    guests = {host: uuids for place in places for host, uuids in guests_on_disk(place).items()}
    with database.read() as connection:
        present = set(check_world(connection, guests))
        check_guests(connection, *places)
        assert audit.find_all(connection) == ()
    random_load.check_promises(present, *(place.parent for place in places))
    database.close()


def _make_groups(folder: Path, seed: str, url: str) -> None:
    cell = _open(folder / "0", seed, 0, url)
    made = [cell.add_group(policy) for policy in ("affinity", "anti-affinity", "soft-anti-affinity")]
    (folder / "groups").write_text(" ".join(made))


def kill_one(folder: Path, seed: str, number: int, url: str) -> str:
    """Kill one of two processes; return the violation found afterwards, or an empty string."""
    rng = random.Random(f"{seed}-{number}")
    victim = rng.randrange(2)
    survivor = 1 - victim
    alone = folder / str(survivor) / "alone"
    alone.unlink(missing_ok=True)
    seconds = rng.uniform(0.2, 2.5)
    step = f"{seed}-{number}"
    dying = Child(partial(_work, folder / str(victim), seed, victim, url))
    living = Child(partial(_survive, folder / str(survivor), seed, survivor, url, seconds))
    time.sleep(seconds)
    dying.kill()
    dying.end(at_most_s=5)
    until = time.monotonic() + 60
    while not alone.exists() and time.monotonic() < until:
        time.sleep(0.05)
    back = Child(partial(_return, folder / str(victim), seed, victim, url))
    for who, child in (("survivor", living), ("returned", back)):
        ended = child.end(at_most_s=_AT_MOST_S)
        if ended.error or ended.killed:
            return f"{step}, {who}: {ended.error or 'killed'}"
    ended = in_child(partial(_look, folder, url), at_most_s=_AT_MOST_S)
    return f"{step}: {ended.error}" if ended.error else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.pair", description=__doc__)
    parser.add_argument("url", help="URL of an upgraded database without content")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    gc.freeze()
    problems = 0
    with tempfile.TemporaryDirectory(prefix="kilonova-pair-") as name:
        folder = Path(name)
        for half in "01":
            (folder / half).mkdir()
        ended = in_child(partial(_make_groups, folder, str(options.seed), options.url), at_most_s=_AT_MOST_S)
        assert not ended.error, ended.error
        for number in range(options.kills):
            problem = kill_one(folder, str(options.seed), number, options.url)
            if problem:
                print(f"VIOLATION {problem}", flush=True)
                problems += 1
                break
    print(f"pair: {number + 1} kills, {problems} violations, seed {options.seed}", flush=True)
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
