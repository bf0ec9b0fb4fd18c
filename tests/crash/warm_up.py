# SPDX-License-Identifier: Apache-2.0
"""The life of a server in the parent of crash tests, so that its children need not compile SQL statements."""

import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from crash import cloud
from crash.points import Watch
from crash.starters import HOSTS
from support.cell import Cell
from support.waiting import wait_until


def warm_up(template: Path) -> None:
    """Build, change and delete servers in this process; children that are forked later inherit its caches.

    Compiling statements takes half of the processor time of a child. ``template``: an upgraded database. When the
    function returns, its threads have ended.
    """
    threads = threading.active_count()
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=template.parent) as folder:
        shutil.copy(template, Path(folder, "kilonova.db"))
        cell = cloud.open_cell(Path(folder), HOSTS, Watch(armed=False))
        try:
            uuid, *_ = cell.boot(2, config_drive=True)
            cloud.come_to_rest(cell)
            for act in _life(cell, uuid):
                act()
                cloud.come_to_rest(cell)
                cloud.world(cell)
            cloud.check(cell)
        finally:
            cloud.close(cell)
    wait_until(lambda: threading.active_count() <= threads, "all threads of the cloud to end")


def _life(cell: Cell, uuid: str) -> tuple[Callable[[], None], ...]:
    return (
        partial(cell.power, uuid, "stop"),
        partial(cell.power, uuid, "start"),
        partial(cell.resize, uuid),
        partial(cell.confirm, uuid),
        partial(cell.live_migrate, uuid),
        partial(cell.rebuild, uuid),
        partial(cell.shelve, uuid),
        partial(cell.unshelve, uuid),
        partial(cell.delete, uuid),
    )
