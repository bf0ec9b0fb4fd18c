# SPDX-License-Identifier: Apache-2.0
"""The mirror: load once, then follow the change log; assume what is being claimed until it is confirmed or forgotten.

::

    commit ──on_commit──▶ apply in seq order ──▶ confirmed state ─┐
    claim under way ──assume / forget────────────▶ assumed use ───┴▶ snapshot() → HostTable, providers() → ProviderTable

The database is asked before the lock is taken, never while it is held: what was read is applied under the lock, which
is work in memory alone. A database that answers slowly, or not at all, holds up who needs its answer and nobody else.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kilonova import deadline
from kilonova.db import mirror_source
from kilonova.db.change_log.changes import Change, Commit
from kilonova.db.core import change_log
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.mirror.directory import HostDirectory
from kilonova.mirror.state import Assumption, MirrorState
from kilonova.model.server_group import GroupView
from kilonova.placement.provider_table import ProviderTable
from kilonova.scheduler.host_table import HostTable

LOG = logging.getLogger(__name__)

#: Before any commit, so that no log row can come next: the state has to be loaded anew.
_NOWHERE = -1
#: How often a request that waits for somebody else's load looks whether it is still wanted.
_LOOK_EVERY_S = 0.5
#: So many new objects are never walked over again: those of some 10,000 hosts with their servers.
_MANY_OBJECTS = 50_000


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Keep the garbage collector from walking over very many new objects again and again, now and later.

    To freeze them keeps for good what is garbage just then, so few of them, which are walked over in no time, are not.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] >= _MANY_OBJECTS:
            gc.freeze()
        if enabled:
            gc.enable()


@dataclass(slots=True)
class Mirror:
    """Everything the scheduler needs, in memory. Every public method may be called from any thread.

    ``lock`` serialises decisions: hold it from :meth:`hosts` to :meth:`assume`. Whoever holds it waits for nobody, so
    :meth:`catch_up`, and what begins with it, comes before.
    """

    database: Database | None
    clock: Callable[[], float] = time.time
    lock: AbstractContextManager[Any] = field(default_factory=threading.RLock)
    seq: int = 0
    _state: MirrorState = field(default_factory=MirrorState)
    #: Held by the one thread that reads the log or everything. It comes before ``lock``, never after it.
    _reading: threading.Lock = field(default_factory=threading.Lock)
    #: While everything is read anew, no commit may be applied to what will be thrown away.
    _is_loading: bool = False

    @classmethod
    def follow(
        cls,
        database: Database,
        *,
        clock: Callable[[], float] | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> "Mirror":
        """Load the database's present state and stay in step with this process's commits.

        ``clock``: in place of the database's.
        """
        database.clock.now()  # from now on it is known, so that nobody waits for it while holding the lock
        mirror = cls(database, clock or database.clock.seconds, lock or threading.RLock())
        mirror.reload()
        database.on_commit(mirror.on_commit)
        return mirror

    @classmethod
    def of(cls, changes: Iterable[Change], seq: int, *, now: float) -> "Mirror":
        """Return a mirror of a past state, at which time stands still; :meth:`replay` brings it forward."""
        return cls(None, lambda: now, seq=seq, _state=MirrorState.of(changes, of_the_past=True))

    # --- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> HostTable:
        """Catch up and return the hosts as they are now, assumed claims included. Raises: Unavailable."""
        self.catch_up()
        return self.hosts()

    def snapshot_apart(self) -> HostTable:
        """Catch up and return :meth:`hosts_apart`. Raises: Unavailable."""
        self.catch_up()
        return self.hosts_apart()

    def providers(self) -> ProviderTable:
        """Catch up and return every resource provider, assumed claims included, to be read. Raises: Unavailable."""
        self.catch_up()
        with self.lock:
            return self._loaded().providers.shared_table()

    def directory(self) -> HostDirectory:
        """Catch up and return which zones, hosts and hypervisors there are. Raises: Unavailable."""
        self.catch_up()
        with self.lock:
            return self._loaded().directory()

    def hosts(self) -> HostTable:
        """Return the hosts as far as the log was followed, assumed claims included."""
        with self.lock:
            return self._loaded().hosts(self.lock, self.clock())

    def hosts_apart(self) -> HostTable:
        """Return :meth:`hosts` for work outside the lock that may take its time, and that may place servers on it.

        Nothing later reaches it, nor does it reach the mirror; only guests are counted when they are asked for.
        """
        with self.lock:
            return self._loaded().hosts_apart(self.lock, self.clock())

    def group(self, uuid: str) -> GroupView | None:
        """Return a server group with the members on each host, assumed ones included; None when unknown."""
        with self.lock:
            return self._state.groups.find(uuid)

    def provider_id(self, uuid: str) -> int:
        """Return the database id of a provider."""
        providers = self._state.providers
        return providers.ids[providers.row_of[uuid]]

    def _loaded(self) -> MirrorState:
        if self.seq == _NOWHERE:
            raise Unavailable("What the scheduler knows of the hosts is being loaded again.")
        return self._state

    # --- claims under way ---------------------------------------------------------------------------------------------

    def assumed(self) -> tuple[Assumption, ...]:
        """Return the claims under way."""
        with self.lock:
            return tuple(self._state.assumed.values())

    def assume(self, assumption: Assumption) -> None:
        """Count a claim as used from now on, until its commit confirms it or :meth:`forget`."""
        with self.lock:
            self._state.assume(assumption)

    def forget(self, claim_id: str) -> None:
        """Take an assumption back; one already confirmed or forgotten is success."""
        with self.lock:
            self._state.forget(claim_id)

    # --- following the log --------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Be as new as the database. Costs nothing on SQLite, where this process is the only writer.

        Not for use while holding the lock. Raises: Unavailable.
        """
        if self.database is None:
            return
        known = self.seq
        if known == _NOWHERE:  # following or loading broke the last time
            self._read_up_to(None)
        elif not self.database.is_sole_process:
            newest = self.database.newest_seq()
            if newest > self.seq:
                self._read_up_to(newest)
            elif newest < known:
                LOG.warning("The database is older than it was: everything is loaded again")
                self.reload()

    def reload(self) -> None:
        """Read everything in one snapshot of the database."""
        with self._turn():
            self._load()

    def replay(self, commits: Iterable[Commit]) -> None:
        """Take over commits that follow each other; those that are known already are left out."""
        for commit in commits:
            with self.lock:
                if commit.seq > self.seq:
                    self._replay(commit)

    def on_commit(self, commit: Commit) -> None:
        """Take over one commit of this process; missing ones of others are fetched first."""
        try:
            with self.lock:
                if commit.seq == self.seq + 1 and not self._is_loading:
                    self._replay(commit)
                    return
                is_known = self.seq >= commit.seq and not self._is_loading
            if not is_known:
                self._read_up_to(commit.seq)
        except Exception:
            LOG.exception("Commit %d could not be followed; everything is loaded again", commit.seq)
            self.seq = _NOWHERE
        finally:
            # It may have come in with a load, which knows nothing of claims.
            for claim_id in commit.claims:
                self.forget(claim_id)

    def _read_up_to(self, seq: int | None) -> None:
        """Take over what the log has up to ``seq`` at least, or everything anew where that is not possible."""
        with self._turn():
            known = self.seq
            if known != _NOWHERE and (seq is None or known >= seq):
                return  # somebody else has read it meanwhile
            commits = None if known == _NOWHERE else self._logged_after(known)
            if commits:
                self.replay(commits)
            else:
                self._load()

    def _logged_after(self, seq: int) -> tuple[Commit, ...] | None:
        assert self.database is not None
        with self.database.read(patient=True) as connection:
            return change_log.between(connection, seq)

    def _load(self) -> None:
        """Replace the state by what the database holds; whatever breaks on the way, the next one loads again."""
        assert self.database is not None
        with self.lock:
            self._is_loading = True
        try:
            with _collector_resting(), mirror_source.load(self.database) as loaded:
                state, seq = MirrorState.of(loaded.changes), loaded.seq
            with self.lock:
                for assumption in self._state.assumed.values():
                    state.assume(assumption)
                self._state, self.seq = state, seq
        except BaseException:
            self.seq = _NOWHERE
            raise
        finally:
            self._is_loading = False

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until nobody else reads. Raises: ClientGone, DeadlineExceeded."""
        while not self._reading.acquire(timeout=_LOOK_EVERY_S):
            deadline.check()
        try:
            yield
        finally:
            self._reading.release()

    def _replay(self, commit: Commit) -> None:
        """Apply the next commit. Hold the lock."""
        try:
            for claim_id in commit.claims:
                self._state.forget(claim_id)
            for change in commit.changes:
                self._state.apply(change)
        except BaseException:
            self.seq = _NOWHERE  # only a part of it is here
            raise
        self.seq = commit.seq
