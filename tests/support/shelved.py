# SPDX-License-Identifier: Apache-2.0
"""Cells whose servers are booted and shelved until nothing is left to do."""

from support.cell import IMAGE, Cell
from support.folder_images import FolderImages


def rest(cell: Cell) -> None:
    cell.work_off()
    assert cell.image_remover is not None
    cell.image_remover.turn()
    cell.check()


def shelved(cell: Cell, uuid: str, *, offload: bool = True) -> None:
    cell.shelve(uuid, offload=offload)
    rest(cell)


def booted(cell: Cell, count: int = 1, **asked: object) -> list[str]:
    uuids = cell.boot(count, **asked)  # type: ignore[arg-type]
    rest(cell)
    return uuids


def own(images: FolderImages) -> list[str]:
    return [image_id for image_id in images.all() if image_id != IMAGE.id]
