# SPDX-License-Identifier: Apache-2.0
"""The mirror: loads the state once, then follows the change log.

A pending claim is *assumed*: its resources are counted as used until the claim is confirmed or forgotten.

::

    commit ──on_commit──▶ apply in seq order ──▶ confirmed state ─┐
    pending claim ──assume / forget──────────────▶ assumed use ───┴▶ snapshot() → HostTable, providers() → ProviderTable

The database is never read while the lock is held. Commits are read before the lock is taken, and applied in memory
while it is held. So a slow or unreachable database delays only the threads that need its answer.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
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
from kilonova.records import dataclass
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.live_hosts import LiveHosts

LOG = logging.getLogger(__name__)

#: ``seq`` of a mirror without a valid state: no commit can follow it, so the state must be loaded again.
_NOWHERE = -1
#: Seconds between checks of a request's deadline and client while the request waits for a load by another thread.
_LOOK_EVERY_S = 0.5
#: gc.freeze() is called after a load that creates at least this number of objects. Loading a cloud of about 10,000
#: hosts with their servers creates that many.
_MANY_OBJECTS = 50_000


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Disable garbage collection during a load, then freeze all objects, so that later collections skip them.

    Garbage that exists at this moment is frozen too, and is never collected. Therefore the objects of a small load are
    not frozen: collections of few objects are cheap.
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


@dataclass(frozen=True, slots=True)
class MirrorCopy:
    """Hosts and server groups (by uuid) after commit ``seq``, assumed claims included; the holder may change them."""

    seq: int
    hosts: HostTable
    groups: dict[str, GroupView]


@dataclass(slots=True)
class Mirror:
    """The scheduler's data in memory. Every public method may be called from any thread.

    ``lock`` serialises decisions: hold the lock from :meth:`hosts` to :meth:`assume`. A thread that holds the lock must
    not block, so call :meth:`catch_up`, and the methods that call it, before taking the lock.
    """

    database: Database | None
    clock: Callable[[], float] = time.time
    lock: AbstractContextManager[Any] = field(default_factory=threading.RLock)
    seq: int = 0
    _state: MirrorState = field(default_factory=MirrorState)
    #: Held by the thread that reads the change log or loads the state. Lock order: first ``_reading``, then ``lock``.
    _reading: threading.Lock = field(default_factory=threading.Lock)
    #: True during a load. Then no commit may be applied to the current state, because the load will replace this state.
    _is_loading: bool = False

    @classmethod
    def follow(
        cls,
        database: Database,
        *,
        clock: Callable[[], float] | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> "Mirror":
        """Return a mirror of the database's present state that follows the commits of this process.

        ``clock``: replacement of the database's clock.
        """
        database.clock.now()  # initialize the database's clock now, so that no thread waits for it with the lock held
        mirror = cls(database, clock or database.clock.seconds, lock or threading.RLock())
        mirror.reload()
        database.on_commit(mirror.on_commit)
        return mirror

    @classmethod
    def of(cls, changes: Iterable[Change], seq: int, *, now: float) -> "Mirror":
        """Return a mirror of a past state, with the fixed time ``now``. :meth:`replay` applies later commits."""
        return cls(None, lambda: now, seq=seq, _state=MirrorState.of(changes, of_the_past=True))

    # --- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> HostTable:
        """Catch up with the change log, and return the present hosts, assumed claims included. Raises: Unavailable."""
        self.catch_up()
        return self.hosts()

    def snapshot_apart(self) -> HostTable:
        """Catch up with the change log, and return an isolated copy of the hosts (:meth:`hosts_apart`).

        Raises: Unavailable.
        """
        self.catch_up()
        return self.hosts_apart()

    def providers(self) -> ProviderTable:
        """Catch up with the change log, and return a read-only table of all providers, assumed claims included.

        Raises: Unavailable.
        """
        self.catch_up()
        with self.lock:
            return self._loaded().providers.shared_table()

    def directory(self) -> HostDirectory:
        """Catch up with the change log, and return the index of zones, hosts and nodes. Raises: Unavailable."""
        self.catch_up()
        with self.lock:
            return self._loaded().directory()

    def zone_of(self, host: str) -> str | None:
        """Return the availability zone of a host, at the mirror's present ``seq``; None if the host is in no zone."""
        with self.lock:
            return self._loaded().zones().get(host)

    def hosts(self, now: float | None = None) -> HostTable:
        """Return the hosts at the mirror's present ``seq``, assumed claims included. ``now``: the time of the table."""
        with self.lock:
            return self._loaded().hosts(self.lock, self.clock() if now is None else now)

    def live(self) -> LiveHosts:
        """Return the hosts of :meth:`hosts` without copies. The caller must hold the lock as long as it reads them."""
        with self.lock:
            return self._loaded().live(self.lock, self.clock())

    def hosts_apart(self) -> HostTable:
        """Return an isolated copy of :meth:`hosts`, for long computations without the lock, which may change the copy.

        Later commits do not change the copy, and changes of the copy do not change the mirror.
        """
        with self.lock:
            return self._loaded().hosts_apart(self.lock, self.clock())

    def copy(self) -> "MirrorCopy":
        """Return isolated copies of the hosts and of the server groups, of one ``seq``."""
        with self.lock:
            state = self._loaded()
            return MirrorCopy(self.seq, state.hosts_apart(self.lock, self.clock()), state.groups.all())

    def group(self, uuid: str) -> GroupView | None:
        """Return a server group with its members on each host, assumed members included; None if it is unknown."""
        with self.lock:
            return self._state.groups.find(uuid)

    def provider_id(self, uuid: str) -> int:
        """Return the database id of a provider."""
        providers = self._state.providers
        return providers.ids[providers.row_of[uuid]]

    def _loaded(self) -> MirrorState:
        if self.seq == _NOWHERE:
            raise Unavailable("The scheduler is reloading its data; try again later.")
        return self._state

    # --- pending claims -----------------------------------------------------------------------------------------------

    def assumed(self) -> tuple[Assumption, ...]:
        """Return the assumed (pending) claims."""
        with self.lock:
            return tuple(self._state.assumed.values())

    def assume(self, assumption: Assumption) -> None:
        """Count a claim's resources as used until its commit confirms it or :meth:`forget` removes it."""
        with self.lock:
            self._state.assume(assumption)

    def forget(self, claim_id: str) -> None:
        """Remove an assumed claim. Not an error if the claim was already confirmed or forgotten."""
        with self.lock:
            self._state.forget(claim_id)

    # --- following the change log -------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Apply all commits in the database that the mirror lacks. The caller must not hold the lock.

        With SQLite there is nothing to read, because this process is the only writer. Raises: Unavailable.
        """
        if self.database is None:
            return
        known = self.seq
        if known == _NOWHERE:  # the state is invalid: the last commit or load has failed
            self._read_up_to(None)
        elif not self.database.is_sole_process:
            newest = self.database.newest_seq()
            if newest > self.seq:
                self._read_up_to(newest)
            elif newest < known:
                LOG.warning("The change log is older than the mirror (restored database?): reloading the mirror")
                self.reload()

    def reload(self) -> None:
        """Load the whole state from one snapshot of the database."""
        with self._turn():
            self._load()

    def replay(self, commits: Iterable[Commit]) -> None:
        """Apply consecutive commits. Commits that the mirror has already applied are skipped."""
        for commit in commits:
            with self.lock:
                if commit.seq > self.seq:
                    self._replay(commit)

    def on_commit(self, commit: Commit) -> None:
        """Apply a commit of this process. Commits of other processes before it are read and applied first."""
        try:
            with self.lock:
                if commit.seq == self.seq + 1 and not self._is_loading:
                    self._replay(commit)
                    return
                is_known = self.seq >= commit.seq and not self._is_loading
            if not is_known:
                self._read_up_to(commit.seq)
        except Exception:
            LOG.exception("Commit %d could not be applied to the mirror; the mirror will be reloaded", commit.seq)
            self.seq = _NOWHERE
        finally:
            # If a reload has read this commit, the claims of the commit are still assumed, because a reload confirms no
            # claims.
            for claim_id in commit.claims:
                self.forget(claim_id)

    def _read_up_to(self, seq: int | None) -> None:
        """Apply the change log up to ``seq`` at least. Reload everything if the log lacks commits that are needed."""
        with self._turn():
            known = self.seq
            if known != _NOWHERE and (seq is None or known >= seq):
                return  # another thread has already read this commit
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
        """Replace the mirror's state with the state in the database. After an error, the state counts as not loaded."""
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
        """Wait until no other thread reads the change log or loads the state. Raises: ClientGone, DeadlineExceeded."""
        while not self._reading.acquire(timeout=_LOOK_EVERY_S):
            deadline.check()
        try:
            yield
        finally:
            self._reading.release()

    def _replay(self, commit: Commit) -> None:
        """Apply the next commit. The caller must hold the lock."""
        try:
            for claim_id in commit.claims:
                self._state.forget(claim_id)
            for change in commit.changes:
                self._state.apply(change)
        except BaseException:
            self.seq = _NOWHERE  # the state is invalid: only a part of the commit was applied
            raise
        self.seq = commit.seq
