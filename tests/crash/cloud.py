# SPDX-License-Identifier: Apache-2.0
"""Core of a control process with threads on an SQLite file, with kill points, and the checks of its state at rest."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crash.kept_neutron import KeptNeutron
from crash.points import Watch, WatchedBus, WatchedDatabase
from crash.starters import OTHER_IMAGE
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.scenario.model import SimulatedHost
from support.cell import IMAGE, RESCUE_IMAGE, Cell, start_cell
from support.folder_images import FolderImages
from support.mirrors import assert_follows
from support.networks import check_networks, shown_networks

#: Seconds after which a workflow that is still running counts as stuck.
_AT_MOST_S = 20.0
#: Additional seconds for host work outside workflows, such as the removal of stray guests.
_LATER_S = 3.0


def open_cell(
    folder: Path,
    hosts: Sequence[SimulatedHost],
    watch: Watch,
    *,
    url: str = "",
    bus: WatchedBus | None = None,
    networks: bool = False,
    **options: Any,
) -> Cell:
    """Start a process on a folder, including the state left by an earlier process.

    ``networks``: whether the cloud has a network service.
    """
    database = WatchedDatabase(url or f"sqlite:///{folder / 'kilonova.db'}")
    database.watch = watch
    watch.database, watch.folder = database, folder
    images = FolderImages(folder / "images")
    for image in (IMAGE, OTHER_IMAGE, RESCUE_IMAGE):
        if images.find(image.id) is None:
            images.add(image.id, f"what servers of {image.name} are made of".encode())
    neutron = KeptNeutron(folder / "neutron", watch) if networks else None
    parts = {"bus": bus or WatchedBus(watch), "database": database, "images": images, "neutron": neutron}
    return start_cell(folder, tuple(hosts), **parts, **options)


def close(cell: Cell) -> None:
    """Shut a process down cleanly."""
    cell.bus.close()
    cell.database.close()


def come_to_rest(cell: Cell, *, at_most_s: float = _AT_MOST_S) -> None:
    """Run until no workflow is left. Raises: AssertionError on timeout, with the stuck workflows."""
    until = time.monotonic() + at_most_s
    while left := under_way(cell):
        assert time.monotonic() < until, f"stuck: {left}"
        turn(cell)
        time.sleep(0.005)
    if isinstance(cell.neutron, KeptNeutron):
        cell.neutron.plug_bound()
    if cell.image_remover is not None:
        cell.image_remover.turn()


def turn(cell: Cell) -> None:
    """Do what a control process does periodically for its workflows, and plug the ports that are bound."""
    cell.conductor.runner.retry_broken()
    cell.conductor.runner.ask_overdue()
    if isinstance(cell.neutron, KeptNeutron):
        cell.neutron.plug_bound()
        cell.conductor.runner.look_for_events()


def under_way(cell: Cell, *, besides: str | None = None) -> list[str]:
    """Describe the unfinished workflows. ``besides``: without those that wait for this host, or for such a workflow."""
    columns = t.workflows.c
    with cell.database.read() as connection:
        rows = connection.execute(sa.select(t.workflows).order_by(columns.created_at)).all()
    if besides is not None:
        rows = [row for row in rows if row.awaited_host != besides and not row.waiting]
    return [f"{row.kind}: {row.step} undoing={row.undoing} stuck={row.stuck} {row.failure}" for row in rows]


def check(cell: Cell) -> None:
    """Check servers, allocations, guests and mirror for consistency. Raises: AssertionError."""
    until = time.monotonic() + _LATER_S
    while True:
        try:
            cell.check()
            check_networks(cell)
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            break
    assert_follows(cell.mirror, cell.database)
    with cell.database.read() as connection:
        assert audit.find_all(connection) == ()


def world(cell: Cell) -> list[Any]:
    """Return the state visible to users and operators, independent of the servers' uuids."""
    instance, migration = t.instances.c, t.server_migrations.c
    guests = {
        (uuid, file.stem): (place.guest and place.guest.state, place.kept is not None)
        for file in sorted((cell.folder / "hypervisors").glob("*.json"))
        for uuid, place in GuestFile("", file).places.items()
    }
    found = []
    images = [] if cell.images is None else cell.images.all().values()
    with cell.database.read() as connection:
        for row in connection.execute(sa.select(t.instances).where(instance.deleted.is_(False))):
            moves = connection.execute(
                sa.select(migration.migration_type, migration.status, migration.source_host, migration.dest_host)
                .where(migration.instance_uuid == row.uuid)
                .order_by(migration.id)
            )
            places = {host: seen for (uuid, host), seen in guests.items() if uuid == row.uuid}
            shown = [row.vm_state, row.host, row.flavor["flavor_id"], row.power_state]
            own = [image for image in images if image["properties"].get("instance_uuid") == row.uuid]
            kinds = sorted((image["properties"]["image_type"], image["data"] is not None) for image in own)
            networks = [] if cell.neutron is None else [shown_networks(cell, row.uuid)]
            found.append([*shown, sorted(places.items()), [list(move) for move in moves], kinds, *networks])
    return sorted(found, key=str)
