# SPDX-License-Identifier: Apache-2.0
"""Background checkpoints of the scheduler's state; a replay of a scheduling decision starts from a checkpoint."""

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

from kilonova.db import checkpoints, mirror_source
from kilonova.db.change_log.changes import Change
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread

_LOOK_EVERY_S = 15.0
_CHANGES_A_PART = 2_000


class Checkpointer(PeriodicPart):
    """Periodic task that takes checkpoints of the scheduler's state and keeps the last ``kept`` of them.

    A checkpoint is taken when the task starts, whenever the last one is ``every`` old, and after every ``commits``
    commits. If several processes share a database, the first process that finds a checkpoint due takes it. ``kept`` 0
    disables checkpoints. A checkpoint that is incomplete when the process stops is dropped.
    """

    def __init__(
        self, database: Database, kept: int, *, every: timedelta = timedelta(hours=1), commits: int = 100_000
    ) -> None:
        self._database = database
        self._kept = kept
        self._every = every
        self._commits = commits
        self._thread = PeriodicThread(
            "checkpoints",
            self.take_if_due,
            _LOOK_EVERY_S,
            description="Take a checkpoint of the scheduler's state if one is due.",
            complaint="No checkpoint was taken",
            from_start=True,
        )
        super().__init__("checkpoints", [self._thread] if kept else [])

    def take_if_due(self) -> int | None:
        """Take a checkpoint if one is due.

        Return the number of the last commit in the checkpoint; None if no checkpoint was taken.
        """
        every, commits = self._every, self._commits
        # The check only reads, because usually no checkpoint is due and no write is needed.
        with self._database.read() as connection:
            if not checkpoints.is_due(connection, self._database.clock.now(), every=every, commits=commits):
                return None
        checkpoint_id = self._database.write(lambda tx: checkpoints.begin(tx, every=every, commits=commits))
        if checkpoint_id is None:
            return None
        try:
            seq = self._write(checkpoint_id)
        except BaseException:
            self._database.write(lambda tx: checkpoints.drop(tx, [checkpoint_id]))
            raise
        if seq is not None:
            kept = self._kept
            self._database.write(lambda tx: checkpoints.complete(tx, checkpoint_id, seq, kept=kept))
        return seq

    def _write(self, checkpoint_id: int) -> int | None:
        """Write the parts of the checkpoint. After each part, pause as long as its write took: claims have priority."""
        with mirror_source.load(self._database) as loaded:
            began = time.monotonic()
            for part, changes in enumerate(_parts(loaded.changes)):
                body = checkpoints.encode(changes)
                self._database.write(lambda tx: checkpoints.add_part(tx, checkpoint_id, part, body))  # noqa: B023
                if self._thread.rest(time.monotonic() - began):
                    self._database.write(lambda tx: checkpoints.drop(tx, [checkpoint_id]))
                    return None
                began = time.monotonic()
            return loaded.seq


def _parts(changes: Iterator[Change]) -> Iterator[list[Change]]:
    while part := list(islice(changes, _CHANGES_A_PART)):
        yield part
