# SPDX-License-Identifier: Apache-2.0
"""The guests of a simulated hypervisor, in a file: instance uuid → its guest, and the one kept for a move.

Files of earlier releases are read as what they mean. The first ones had only the power state of each guest, as a
number. Until marks came, each guest in a file was ours, and was ordered at the latest when the file was last written.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState


class Origin(StrEnum):
    """How a guest came to its host. ``INCOMING``: it is still being copied."""

    SPAWNED = "spawned"
    MOVED = "moved"
    INCOMING = "incoming"


#: So much of what happened to a guest is remembered for its console.
_ENTRIES = 30


@dataclass(frozen=True, slots=True)
class ConsoleEntry:
    """What a guest writes to its console. ``at``: by the host's clock, in UTC. ``is_boot``: it starts with that."""

    what: str
    at: str
    is_boot: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedGuest:
    """One guest. The size of one from a file of before is not known, and 0.

    ``console``: what it wrote there last, the newest at the end.
    ``rescue_image_ref``: what it was started from instead of its own disk, which is kept; None when it was not.
    ``image_ref``: what its disk was made from; None where the file is from before it said so.
    ``ordered_at``: the mark that Kilonova made it, and when that was asked for; None: somebody else did.
    """

    state: PowerState
    origin: Origin = Origin.SPAWNED
    vcpus: int = 0
    memory_mib: int = 0
    root_gib: int = 0
    ordered_at: datetime | None = None
    image_ref: str | None = None
    rescue_image_ref: str | None = None
    console: tuple[ConsoleEntry, ...] = ()
    has_config_drive: bool = False

    def booted(self, how: str) -> "SimulatedGuest":
        """Return the guest as it runs after one more start."""
        return replace(self.wrote(how, is_boot=True), state=PowerState.RUNNING)

    def wrote(self, what: str, *, is_boot: bool = False) -> "SimulatedGuest":
        """Return the guest after it has written something to its console."""
        entry = ConsoleEntry(what, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), is_boot)
        return replace(self, console=(*self.console, entry)[-_ENTRIES:])

    @classmethod
    def of(cls, guest: GuestSpec, state: PowerState, origin: Origin) -> "SimulatedGuest":
        ordered_at = guest.ordered_at or datetime.now(UTC).replace(tzinfo=None)  # a conductor of before says nothing
        size = guest.vcpus, guest.memory_mib, guest.root_gib
        has_drive = guest.config_drive is not None
        return cls(state, origin, *size, ordered_at, guest.image_ref, has_config_drive=has_drive)


@dataclass(frozen=True, slots=True)
class Place:
    """What a host has for one instance. ``kept``: with the state that it had before it was kept."""

    guest: SimulatedGuest | None = None
    kept: SimulatedGuest | None = None

    @property
    def power_state(self) -> PowerState:
        return PowerState.SHUTDOWN if self.guest is None else self.guest.state

    @property
    def ordered_at(self) -> datetime | None:
        newest = self.guest or self.kept
        return None if newest is None else newest.ordered_at

    @property
    def state_when_kept(self) -> PowerState:
        return PowerState.NOSTATE if self.kept is None else self.kept.state


_NOTHING = Place()


class GuestFile:
    """The guests in the file of a host. It is replaced whole at every change, and read anew when somebody else did so.

    Callers see to it that changes of one process come one by one; the lock of the folder keeps others out meanwhile.

    ``on_gone``: told of an instance of which the host has nothing any more.
    """

    def __init__(self, host: str, file: Path, on_gone: Callable[[str], object] = lambda _uuid: None) -> None:
        self._host = host
        self._file = file
        self._on_gone = on_gone
        self._lock = threading.RLock()
        self._places: Mapping[str, Place] = {}
        self._stamp: tuple[int, ...] | None = None
        self._changes: dict[str, PowerState] = {}
        self._refresh()
        self._changes.clear()

    @property
    def places(self) -> Mapping[str, Place]:
        return self._refresh()

    def guest(self, uuid: str) -> SimulatedGuest | None:
        return self._refresh().get(uuid, _NOTHING).guest

    def kept(self, uuid: str) -> SimulatedGuest | None:
        return self._refresh().get(uuid, _NOTHING).kept

    def take_changes(self) -> Mapping[str, PowerState]:
        """Return the power states of guests that somebody else has changed since the last call; NOSTATE: it is gone."""
        with self._lock:
            self._refresh()
            taken, self._changes = self._changes, {}
            return taken

    def put(self, uuid: str, **changed: SimulatedGuest | None) -> None:
        """Change the ``guest`` or what is ``kept`` of an instance, or both in one step. Raises: DriverError."""
        self.put_all(lambda places: {uuid: replace(places.get(uuid, _NOTHING), **changed)})

    def put_all(self, change: Callable[[Mapping[str, Place]], Mapping[str, Place]], *, alone: bool = False) -> None:
        """Change what a host has for some instances in one step. ``alone``: no agent may be changing anything.

        Raises: DriverError.
        """
        with self._lock, self._folder_locked(alone=alone):
            before = self._refresh()
            after = {uuid: place for uuid, place in {**before, **change(before)}.items() if place != _NOTHING}
            if after != before:
                self._store(after)
        for uuid in before.keys() - after.keys():
            self._on_gone(uuid)

    def _refresh(self) -> Mapping[str, Place]:
        """Read the file if it is not as this process left it, and return the guests."""
        with self._lock:
            try:
                stamp = _stamp(self._file.stat())
            except FileNotFoundError:  # nothing was ever there, or its disk is away: that says nothing of guests
                return self._places
            if stamp != self._stamp:
                places, self._stamp = self._read()
                known = self._places
                for uuid in {*known, *places}:
                    was, now = known.get(uuid), places.get(uuid)
                    state = PowerState.NOSTATE if now is None else now.power_state
                    if was is None or was.power_state is not state:
                        self._changes[uuid] = state
                self._places = places
            return self._places

    def _read(self) -> tuple[dict[str, Place], tuple[int, ...]]:
        with self._file.open("rb") as file:
            found = os.fstat(file.fileno())
            stored: dict[str, Any] = orjson.loads(file.read())
        written_at = datetime.fromtimestamp(found.st_mtime, UTC).replace(tzinfo=None)
        return {uuid: _place(value, written_at) for uuid, value in stored.items()}, _stamp(found)

    def _store(self, places: dict[str, Place]) -> None:
        """Replace the file in one step, then what is known here: a kill or a full disk leaves both as they were."""
        draft = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(orjson.dumps(places))
                file.flush()
                stamp = _stamp(os.fstat(file.fileno()))
            os.replace(draft, self._file)  # noqa: PTH105 - the one-step replace is the point
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise self._refused(error) from error
        self._places, self._stamp = places, stamp

    @contextlib.contextmanager
    def _folder_locked(self, *, alone: bool) -> Iterator[None]:
        """Keep out those who want to be alone with the folder; agents do not keep each other out."""
        try:
            lock = os.open(self._file.parent / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._refused(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(lock)

    def _refused(self, error: OSError) -> DriverError:
        return DriverError(f"Host {self._host} cannot store its guests: {error.strerror}.")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _place(value: Any, written_at: datetime) -> Place:
    if isinstance(value, int):
        return Place(SimulatedGuest(PowerState(value), ordered_at=written_at))
    return Place(_guest(value["guest"], written_at), _guest(value["kept"], written_at))


def _guest(value: Any, written_at: datetime) -> SimulatedGuest | None:
    if value is None:
        return None
    text = value.get("ordered_at", "")
    ordered_at = written_at if text == "" else None if text is None else datetime.fromisoformat(text)
    enums = {"state": PowerState(value["state"]), "origin": Origin(value["origin"])}
    console = tuple(ConsoleEntry(**entry) for entry in value.get("console", ()))
    return SimulatedGuest(**{**value, **enums, "ordered_at": ordered_at, "console": console})
