# SPDX-License-Identifier: Apache-2.0
"""The hints, group, zone and isolation of a server's first request apply to every kind of move.

A kind of move is an entry of ``KINDS``: what has a server move.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.db import aggregates, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.model.request_spec import StoredRequest
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import IMAGE, Cell, NewCell, host
from support.folder_images import FolderImages

#: All but the last would be a better choice by size. The first is where the server is.
HOSTS = (
    host("home", memory_mib=4096),
    host("of-another", memory_mib=16384),
    host("of-the-group", memory_mib=16384),
    host("kept-for-others", memory_mib=16384),
    host("elsewhere", memory_mib=16384),
    host("right", memory_mib=2048),
)
FILTERS = SchedulerConfig(enabled_filters=(*SchedulerConfig().enabled_filters, "DifferentHostFilter"))


def _shelved_and_back(cell: Cell, uuid: str) -> None:
    cell.shelve(uuid, offload=True)
    cell.work_off()
    cell.unshelve(uuid)


KINDS: dict[str, Callable[[Cell, str], None]] = {
    "resize": Cell.resize,
    "migrate": Cell.migrate,
    "live-migrate": Cell.live_migrate,
    "evacuate": Cell.evacuate,
    "unshelve": _shelved_and_back,
}
#: Kinds after which a server may be where it was.
COMES_BACK = {"unshelve"}


@pytest.fixture
def images(tmp_path: Path) -> FolderImages:
    made = FolderImages(tmp_path / "images")
    made.add(IMAGE.id, b"what servers are made of")
    return made


def arrange(cell: Cell) -> str:
    """Make a server at home for which only one other host is right, and return its uuid."""

    def zones(tx: Transaction) -> None:
        zone = aggregates.create(tx, "zone", "z")
        kept = aggregates.create(tx, "kept")
        for each in HOSTS:
            if each.name != "elsewhere":
                aggregates.add_host(tx, zone.id, each.name, default_zone="nova")
        aggregates.set_metadata(tx, kept.id, {"kilonova:only": "project=others"})
        aggregates.add_host(tx, kept.id, "kept-for-others", default_zone="nova")

    cell.database.write(zones)
    group = cell.add_group("anti-affinity")
    (another,) = cell.boot(force_host="of-another")
    cell.boot(force_host="of-the-group", group=group)
    cell.work_off()
    hints = {"different_host": (another,), "group": (group,)}
    (uuid,) = cell.boot(requested_host="home", group=group, hints=hints, availability_zone="z")
    cell.work_off()
    assert cell.instance(uuid).host == "home"
    return uuid


def move(cell: Cell, uuid: str, kind: str) -> None:
    KINDS[kind](cell, uuid)
    cell.work_off()
    assert cell.image_remover is not None
    cell.image_remover.turn()


def request_of(cell: Cell, uuid: str) -> StoredRequest:
    with cell.database.read() as connection:
        return request_specs.get_many(connection, [cell.instance(uuid)])[uuid]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_goes_where_it_could_have_been_made(cell_of: NewCell, images: FolderImages, kind: str) -> None:
    cell = cell_of(*HOSTS, config=FILTERS, images=images)
    uuid = arrange(cell)
    asked = request_of(cell, uuid)
    move(cell, uuid, kind)
    assert cell.instance(uuid).host in {"right", *(("home",) if kind in COMES_BACK else ())}
    assert request_of(cell, uuid) == asked
    cell.check()


@pytest.mark.parametrize("kind", KINDS)
def test_without_such_a_host_it_stays(cell_of: NewCell, images: FolderImages, kind: str) -> None:
    cell = cell_of(*HOSTS, config=FILTERS, images=images)
    uuid = arrange(cell)
    cell.boot(4, requested_host="right")
    cell.work_off()
    move(cell, uuid, kind)
    assert cell.instance(uuid).host == "home"
    cell.check()
