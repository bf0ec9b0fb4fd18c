# SPDX-License-Identifier: Apache-2.0
"""Purge deleted servers in the background, where ``[operator] purge_deleted_after_days`` asks for it."""

import logging
import threading
from datetime import timedelta

from kilonova.db import purge
from kilonova.db.database import Database, utc_now
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)
_EVERY_S = 3600.0


class Purger:
    """Purges once an hour what was deleted ``days`` days ago or earlier; 0 days: nothing, ever."""

    def __init__(self, database: Database, days: int, *, every_s: float = _EVERY_S) -> None:
        self._database = database
        self._kept = timedelta(days=days)
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="purge", daemon=True)

    def start(self) -> None:
        if self._kept:
            self._thread.start()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                removed = purge.purge(self._database, utc_now() - self._kept, rest=self._stop.wait)
            except Unavailable as error:
                LOG.warning("Deleted servers were not purged: %s", error.message)
            except Exception:
                LOG.exception("Deleted servers were not purged")
            else:
                if removed:
                    LOG.info("Purged %d deleted servers", removed["instances"])
