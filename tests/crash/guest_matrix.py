# SPDX-License-Identifier: Apache-2.0
"""Crash matrix of real guests: each workflow of one host, killed before every effect on the host.

A process prepares a server, starts a workflow and dies; the next one resumes it, comes to rest and checks servers,
domains, folders and disks. After half of the kills that process first deletes the server. Foreign guests exist all the
time and must not change.

python -m crash.guest_matrix [--sample N] [--seed N] [--only KIND] [--uri URI --folder FOLDER]
"""

import argparse
import contextlib
import gc
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crash import guest_cloud
from crash.effects import Death, Effects
from crash.guest_cloud import Ground
from crash.processes import Ended, in_child
from crash.starters import STARTERS, Act, Starter
from kilonova.db import schema
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.model.instance import PowerState
from support.cell import Cell
from support.libvirt_node import LibvirtNode

_AT_MOST_S = 180.0
_TELL_EVERY_S = 15.0
#: Attempts for each kill; thread timing can make a run miss the point.
_AIMS = 2


def _then(kind: str, starter: str, *acts: Act) -> Starter:
    """Return a starter whose preparation is the given acts."""
    known = STARTERS[kind][starter]
    return Starter(known.begin, (*acts,))


_RESIZED = STARTERS["confirm-resize"]["same host"].before
_SHELVED = STARTERS["unshelve"]["on its host"].before
#: (kind, starter) as in starters.py for workflows that one host can run, and additional ones that change disks.
WAYS: Mapping[tuple[str, str], Starter] = {
    **{
        (kind, name): STARTERS[kind][name]
        for kind, name in (
            *(("build", ""), ("delete", ""), ("delete", "soft-deleted"), ("soft-delete", ""), ("restore", "")),
            *(("start", ""), ("stop", ""), ("force-stop", ""), ("reboot", ""), ("hard-reboot", "")),
            *(("pause", ""), ("unpause", ""), ("suspend", ""), ("resume", "")),
            *(("rescue", ""), ("rescue", "off"), ("unrescue", ""), ("crash-dump", "")),
            *(("resize", "same host"), ("confirm-resize", "same host"), ("revert-resize", "same host")),
            *(("rebuild", ""), ("rebuild", "same image, off")),
            *(("create-image", ""), ("create-image", "off"), ("create-backup", "")),
            *(("shelve", ""), ("shelve", "stays"), ("shelve", "paused")),
            *(("unshelve", ""), ("unshelve", "on its host"), ("shelve-offload", "")),
        )
    },
    ("delete", "resized here"): _then("delete", "", *_RESIZED),
    ("delete", "shelved here"): _then("delete", "", *_SHELVED),
    ("delete", "rescued"): _then("delete", "", *STARTERS["unrescue"][""].before),
    ("delete", "suspended"): _then("delete", "", *STARTERS["resume"][""].before),
    ("hard-reboot", "suspended"): _then("hard-reboot", "", *STARTERS["resume"][""].before),
}
#: Workflows that give a guest a new disk.
_OTHER_DISK = {"build", "rebuild"}
#: Workflows that give a guest a former disk.
_OLD_DISK = {"revert-resize"}


@dataclass(frozen=True)
class Case:
    """Workflow to kill. ``death``: None for a run that only counts effects."""

    way: tuple[str, str]
    death: Death | None = None
    deleted: bool = False

    def __str__(self) -> str:
        what = " ".join(self.way).strip()
        return f"[{what}] killed {self.death}{', then deleted' if self.deleted else ''}"


# --- in the child processes -------------------------------------------------------------------------------------------


def _turn(ground: Ground, repairs: Case | None, then: Case | None) -> dict[str, Any]:
    """Resume the workflow of the last kill and check it; then start a workflow and die in it, or count its effects.

    ``repairs``: the case of the last kill. ``then``: the next case.
    """
    effects = Effects(str(ground.instances))
    cell = ground.open(effects)
    if repairs is not None:
        _repair(ground, cell, repairs)
    (ground.folder / "repaired").touch()
    if then is None:
        return {"repaired": True}
    starter, known = WAYS[then.way], []
    for act in starter.before:
        act(cell, known)
        guest_cloud.come_to_rest(cell)
    guest_cloud.check(cell, ground)
    assert not guest_cloud.faults(cell), guest_cloud.faults(cell)
    boots = {uuid: ground.wait_for_boot(uuid) for uuid in known if _runs(cell, uuid)}
    (ground.folder / "before.json").write_text(json.dumps([known, boots, guest_cloud.strangers(ground.uri)]))
    effects.death, effects.armed = then.death, True
    starter.begin(cell, known)
    guest_cloud.come_to_rest(cell)
    effects.armed = False
    assert not guest_cloud.faults(cell), guest_cloud.faults(cell)
    _look(ground, cell, then, known, boots)
    _clear(ground, cell)
    return {"deaths": [[each.nth, each.name, each.meanwhile] for each in effects.deaths()]}


def _runs(cell: Cell, uuid: str) -> bool:
    return bool(cell.instance(uuid).power_state is PowerState.RUNNING)


def _repair(ground: Ground, cell: Cell, case: Case) -> None:
    known, boots, strangers = json.loads((ground.folder / "before.json").read_text())
    with cell.database.read() as connection:
        known = sorted({*known, *(row.uuid for row in _servers(connection))})
    if case.deleted:
        for uuid in known:
            _delete(cell, uuid)
    guest_cloud.come_to_rest(cell)
    assert not guest_cloud.faults(cell), guest_cloud.faults(cell)
    _look(ground, cell, case, known, boots)
    found = [list(each) for each in guest_cloud.strangers(ground.uri)]
    assert found == strangers, f"foreign guests changed: {found}, before: {strangers}"
    _clear(ground, cell)


def _look(ground: Ground, cell: Cell, case: Case, known: list[str], boots: Mapping[str, int]) -> None:
    guest_cloud.check(cell, ground)
    for uuid in known:
        instance = cell.find(uuid)
        if instance is None or instance.host is None:
            continue
        if case.way[0] in _OTHER_DISK:
            assert instance.power_state is not PowerState.RUNNING or ground.wait_for_boot(uuid)
        else:
            least = min(1, boots.get(uuid, 0)) if case.way[0] in _OLD_DISK else boots.get(uuid, 0)
            assert ground.boots(uuid) >= least, f"guest {uuid} has lost its disk"


def _clear(ground: Ground, cell: Cell) -> None:
    """Delete all servers, and check that nothing is left of them."""
    with cell.database.read() as connection:
        left = [row.uuid for row in _servers(connection)]
    for uuid in left:
        _delete(cell, uuid)
    guest_cloud.come_to_rest(cell)
    guest_cloud.check(cell, ground)
    with cell.database.read() as connection:
        assert _servers(connection) == []
    assert cell.images is not None
    for image_id, each in cell.images.all().items():
        if "instance_uuid" in each["properties"]:
            cell.images.remove(image_id)


def _delete(cell: Cell, uuid: str) -> None:
    instance = cell.find(uuid)
    if instance is not None:
        act = cell.force_delete if instance.vm_state.value == "soft-delete" else cell.delete
        act(uuid)


def _servers(connection: Any) -> list[Any]:
    return list(connection.execute(sa.select(t.instances).where(t.instances.c.deleted.is_(False))))


# --- in the parent process --------------------------------------------------------------------------------------------


@dataclass
class Report:
    kills: int = 0
    missed: int = 0
    problems: int = 0


class Matrix:
    """One libvirtd with a cloud, which is replaced after a violation."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        self._uri = uri
        self._number = 0
        self._schema = folder / "schema.db"
        self.report = Report()
        database = Database(f"sqlite:///{self._schema}")
        schema.upgrade(database)
        database.close()
        self._ground = self._new_ground()

    def deaths_of(self, way: tuple[str, str]) -> list[Death]:
        """Run a workflow to its end, and return all kills that are possible on it."""
        ended = self._child(None, Case(way))
        if ended.error or ended.killed:
            self._complain(f"[{' '.join(way)}] without a kill", ended)
            return []
        return [Death(*each) for each in ended.found["deaths"]]

    def run(self, cases: list[Case]) -> None:
        """Run each case; the process of one case first resumes the workflow of the case before."""
        began = told = time.monotonic()
        last: Case | None = None
        for number, case in enumerate(cases):
            for _ in range(_AIMS):
                (self._ground.folder / "repaired").unlink(missing_ok=True)
                ended = self._child(last, case)
                if last is not None and not (self._ground.folder / "repaired").exists():
                    self._complain(str(last), ended)
                    ended = self._child(None, case)
                last = case if ended.killed else None
                if ended.error:
                    self._complain(f"before the kill: {case}", ended)
                if ended.killed or ended.error:
                    break
            self.report.kills += bool(last)
            self.report.missed += last is None
            if time.monotonic() - told > _TELL_EVERY_S:
                told = time.monotonic()
                print(f"guests: {number + 1} of {len(cases)} kills ({told - began:.0f} s)", flush=True)
        if last is not None:
            ended = self._child(last, None)
            if ended.error or ended.killed:
                self._complain(str(last), ended)

    def end(self) -> None:
        _clear_host(self._uri)

    def _child(self, repairs: Case | None, then: Case | None) -> Ended:
        return in_child(partial(_turn, self._ground, repairs, then), at_most_s=_AT_MOST_S)

    def _complain(self, what: str, ended: Ended) -> None:
        self.report.problems += 1
        print(f"VIOLATION {what}\n{ended.error or 'killed'}\n(files kept in {self._ground.folder})", flush=True)
        self._ground = self._new_ground()

    def _new_ground(self) -> Ground:
        _clear_host(self._uri)
        self._number += 1
        ground = Ground(self._folder / f"cloud{self._number}", self._uri)
        ground.prepare(self._schema)
        _require(in_child(partial(guest_cloud.add_strangers, self._uri), at_most_s=_AT_MOST_S))
        return ground


def _clear_host(uri: str) -> None:
    _require(in_child(partial(guest_cloud.clear, uri), at_most_s=_AT_MOST_S))


def _require(ended: Ended) -> None:
    assert not ended.error, ended.error
    assert not ended.killed


def run(folder: Path, uri: str, options: argparse.Namespace) -> int:
    began = time.monotonic()
    gc.freeze()
    rng = random.Random(options.seed)
    ways = [way for way in WAYS if options.only in {None, way[0]}]
    if options.sample:
        ways = rng.sample(ways, min(len(ways), max(1, options.sample // 2)))
    matrix = Matrix(folder, uri)
    cases = [
        Case(way, death, deleted=number % 2 == 1) for way in ways for number, death in enumerate(matrix.deaths_of(way))
    ]
    print(f"guests: {len(ways)} ways, {len(cases)} kills ({time.monotonic() - began:.0f} s)", flush=True)
    if options.sample:
        cases = rng.sample(cases, min(options.sample, len(cases)))
        print(f"guests: {len(cases)} kills chosen, seed {options.seed}", flush=True)
    matrix.run(cases)
    matrix.end()
    report, taken = matrix.report, time.monotonic() - began
    print(
        f"guests: {report.kills} kills in {taken:.0f} s, {report.problems} violations, {report.missed} missed",
        flush=True,
    )
    return report.problems


def main() -> int:
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="crash.guest_matrix", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="run this many kills, chosen by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted({kind for kind, _ in WAYS}), help="run this workflow only")
    parser.add_argument("--uri", help="URI of a libvirtd without guests, instead of a private one")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kilonova-guests-"))
    folder.chmod(0o755)
    with contextlib.ExitStack() as end:
        uri = options.uri
        if uri is None:
            node = LibvirtNode()
            end.callback(node.remove)
            node.start()
            uri = node.uri
        problems = run(folder, uri, options)
    if not problems:
        shutil.rmtree(folder)
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
