# SPDX-License-Identifier: Apache-2.0
"""The cloud at past change-log numbers, in ascending order: one walk from a checkpoint through the change log.

::

    checkpoint ─▶ commits ─▶ the cloud of the first decision ─▶ commits ─▶ the cloud of the next decision ─▶ …
                     ╵ a gap in the log: go on from the next checkpoint
"""

from collections import deque

from sqlalchemy.engine import Connection

from kilonova.claims.edited_changes import EditedChanges
from kilonova.db import checkpoints
from kilonova.db.change_log.changes import Commit
from kilonova.db.checkpoints import Checkpoint
from kilonova.db.core import change_log
from kilonova.errors import FromNewerRelease, KilonovaError
from kilonova.mirror.mirror import Mirror
from kilonova.records import replace

_READ_TOGETHER = 500
#: Number of commits from which on a later checkpoint is loaded instead, which takes about as long.
_LONG_WAY = 100_000


class UnknownPast(KilonovaError):
    """The state of the cloud at that time cannot be rebuilt."""


class PastCloud:
    """The cloud of a database at past commits, with edited changes.

    ``connection``: a read transaction, so that neither log nor checkpoints are trimmed meanwhile.
    """

    def __init__(self, connection: Connection, edits: EditedChanges) -> None:
        self._connection = connection
        self._edits = edits
        self._mirror: Mirror | None = None
        self._ahead: deque[Commit] = deque()
        self._oldest = checkpoints.oldest(connection)

    def at(self, seq: int) -> Mirror:
        """Return the cloud after commit ``seq``, which is at or after the commit of the call before.

        The mirror is valid until the next call. Raises: UnknownPast.
        """
        if self._oldest is None or seq < self._oldest:
            raise UnknownPast("The decision is older than the oldest checkpoint.")
        try:
            mirror = self._mirror
            if mirror is None or seq - mirror.seq > _LONG_WAY:
                mirror = self._from_checkpoint(seq)
            if not self._follow(mirror, seq):
                mirror = self._from_checkpoint(seq)
                if not self._follow(mirror, seq):
                    raise UnknownPast("The change log is incomplete between the checkpoint and the decision.")
        except FromNewerRelease as error:
            raise UnknownPast(error.message) from error
        return mirror

    def _from_checkpoint(self, seq: int) -> Mirror:
        """Return the mirror that is nearest to a commit: the present one, or one of a checkpoint after it."""
        found: Checkpoint | None = checkpoints.find(self._connection, seq)
        assert found is not None
        mirror = self._mirror
        if mirror is not None and found.seq <= mirror.seq:
            return mirror
        self._ahead.clear()
        self._edits.forget()
        changes = checkpoints.read(self._connection, found)
        self._mirror = mirror = Mirror.of(self._edits.edited(changes), found.seq, now=0.0)
        return mirror

    def _follow(self, mirror: Mirror, seq: int) -> bool:
        """Apply the commits up to ``seq``; return False if one of them is missing."""
        while mirror.seq < seq:
            if not self._ahead:
                self._ahead.extend(change_log.some_after(self._connection, mirror.seq, _READ_TOGETHER))
            if not self._ahead or self._ahead[0].seq != mirror.seq + 1:
                return False
            commit = self._ahead.popleft()
            if not self._edits.is_empty:
                commit = replace(commit, changes=tuple(self._edits.edited(commit.changes)))
            mirror.replay((commit,))
        return True
