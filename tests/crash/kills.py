# SPDX-License-Identifier: Apache-2.0
"""Random kills of clouds under constant load, with a check after every few kills.

Half of the kills come at a random transaction or message, half at a random time, also during start-up. Some hit the
real command `kilonova api`, from its first instruction on.

python -m crash.kills [--kills N] [--commands N] [--jobs N] [--seed N]
"""

import argparse
import gc
import logging
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crash import cloud, command_kills, random_load
from crash.points import Watch
from crash.processes import in_child
from crash.warm_up import warm_up
from kilonova.db import schema
from kilonova.db.database import Database

#: Kills of one cloud before it is replaced by a new one.
_KILLS_EACH = 10
_LOOKED_AT_EVERY = 2
_WORKS_S = 4.0
_AT_MOST_S = 60.0
_TELL_EVERY_S = 10.0
_MOST_POINTS = 150


@dataclass(frozen=True)
class Outcome:
    """Result of one cloud. ``problem``: the violation, or an empty string."""

    seed: str
    kills: int
    problem: str = ""


def _work(folder: Path, seed: str, round_: str, kill_after: int | None) -> None:
    """Resume all work and run the load until killed."""
    rng = random.Random(seed)
    cell = cloud.open_cell(folder, random_load.hosts(rng), Watch(kill_after=kill_after))
    groups = folder / "groups"
    if not groups.exists():
        made = [cell.add_group(policy) for policy in ("affinity", "anti-affinity", "soft-anti-affinity")]
        groups.write_text(" ".join(made))
    random_load.Load(cell, groups.read_text().split(), f"{seed}-{round_}").run(_WORKS_S)


def _look(folder: Path, seed: str) -> None:
    """Start without load, come to rest, and check all invariants."""
    cell = cloud.open_cell(folder, random_load.hosts(random.Random(seed)), Watch())
    cloud.come_to_rest(cell)
    cloud.check(cell)
    random_load.check_promises(set(cell.check()), folder)
    cloud.close(cell)


def kill_one_cloud(template: Path, kept: Path, seed: str, kills: int) -> Outcome:
    """Kill a cloud ``kills`` times with checks in between. The folder is kept after a violation."""
    rng = random.Random(f"kills of {seed}")
    folder = Path(tempfile.mkdtemp(prefix="cloud-", dir=kept))
    shutil.copy(template, folder / "kilonova.db")
    for number in range(1, kills + 1):
        at_a_point = rng.random() < 0.5
        after = rng.randrange(1, _MOST_POINTS) if at_a_point else None
        until = _AT_MOST_S if at_a_point else rng.uniform(0.0, 1.2)
        ended = in_child(partial(_work, folder, seed, str(number), after), at_most_s=until)
        if ended.error and not ended.late:
            return Outcome(seed, number, f"{folder}, before kill {number}: {ended.error}")
        if number % _LOOKED_AT_EVERY == 0 or number == kills:
            ended = in_child(partial(_look, folder, seed), at_most_s=_AT_MOST_S)
            if ended.error or ended.killed:
                return Outcome(seed, number, f"{folder}, after kill {number}: {ended.error or 'killed'}")
    shutil.rmtree(folder)
    return Outcome(seed, kills)


def _kill_numbered(template: Path, kept: Path, seed: int, work: tuple[str, int, int]) -> tuple[str, Outcome]:
    kind, number, kills = work
    if kind == "command":
        problem = command_kills.kill_one_cloud(kept, f"{seed}-{number}", kills)
        return kind, Outcome(f"{seed}-{number}", kills, problem)
    return kind, kill_one_cloud(template, kept, f"{seed}-{number}", kills)


def run(folder: Path, options: argparse.Namespace) -> int:
    """Run all kills and print the progress; return the number of violations."""
    began = told = time.monotonic()
    template = folder / "schema.db"
    database = Database(f"sqlite:///{template}")
    schema.upgrade(database)
    database.close()
    warm_up(template)
    gc.freeze()
    wanted = _portions("command", options.commands) + _portions("core", options.kills - options.commands)
    print(f"kills: {options.kills}, {options.commands} of the real command, seed {options.seed}", flush=True)
    done: Counter[str] = Counter()
    problems = 0
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for kind, outcome in pool.imap_unordered(partial(_kill_numbered, template, folder, options.seed), wanted):
            done[kind] += outcome.kills
            if outcome.problem:
                problems += 1
                print(f"VIOLATION cloud {outcome.seed} ({kind}): {outcome.problem}", flush=True)
            if time.monotonic() - told > _TELL_EVERY_S:
                told = time.monotonic()
                print(f"kills: {done.total()} of {options.kills} ({told - began:.0f} s)", flush=True)
    taken = time.monotonic() - began
    counts = f"{done.total()} kills, {done['command']} of the real command, in {taken:.0f} s"
    print(f"kills: {counts}, {problems} violations, seed {options.seed}", flush=True)
    return problems


def _portions(kind: str, kills: int) -> list[tuple[str, int, int]]:
    return [
        (kind, start // _KILLS_EACH, min(_KILLS_EACH, kills - start)) for start in range(0, max(0, kills), _KILLS_EACH)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--commands", type=int, default=50, help="number of kills that hit the real command")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="kilonova-kills-"))
    problems = run(folder, options)
    if not problems:
        shutil.rmtree(folder)
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
