# SPDX-License-Identifier: Apache-2.0
"""State file of simulated guests: instance uuid → guest and kept guest of the instance.

Files of earlier releases can be read. The oldest files contain only the power state of each guest, as a number. If a
file contains no marks, every guest counts as created by Kilonova; the time of the mark is the time of the file.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import orjson

from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass, replace


class Origin(StrEnum):
    """Origin of a guest on its host. ``INCOMING``: a live migration is still copying the guest to this host."""

    SPAWNED = "spawned"
    MOVED = "moved"
    INCOMING = "incoming"


#: Maximum number of entries in a guest's console log.
_ENTRIES = 30


@dataclass(frozen=True, slots=True)
class ConsoleEntry:
    """An entry of a guest's console log. ``at``: UTC time of the host. ``is_boot``: whether a boot sequence begins."""

    what: str
    at: str
    is_boot: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedGuest:
    """One guest. ``vcpus``, ``memory_mib``, ``root_gib``: 0 in state files of old releases, which stored no sizes.

    ``console``: the last entries of the console log, the newest at the end.
    ``rescue_image_ref``: the rescue image that the guest runs from; None if the guest runs from its own disk.
    ``image_ref``: the image that the disk was made from; None in state files of old releases without this field.
    ``ordered_at``: Kilonova's mark, which is the time of the order that created the guest; None if Kilonova did not
    create the guest. ``ports``: ids of the ports of its network interfaces. ``local_disks``: descriptions of its
    ephemeral disks and swap.
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
    ports: tuple[str, ...] = ()
    local_disks: tuple[str, ...] = ()

    def booted(self, how: str) -> "SimulatedGuest":
        """Return the guest as it is after one more boot."""
        return replace(self.wrote(how, is_boot=True), state=PowerState.RUNNING)

    def wrote(self, what: str, *, is_boot: bool = False) -> "SimulatedGuest":
        """Return the guest with one more console entry."""
        entry = ConsoleEntry(what, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), is_boot)
        return replace(self, console=(*self.console, entry)[-_ENTRIES:])

    @property
    def disks(self) -> Mapping[str, str]:
        """Device name → description of the disk, the root disk first."""
        found = (f"disk of {self.root_gib} GiB", *self.local_disks)
        return {f"vd{letter}": what for letter, what in zip(ascii_lowercase, found, strict=False)}

    @classmethod
    def of(cls, guest: GuestSpec, state: PowerState, origin: Origin) -> "SimulatedGuest":
        ordered_at = guest.ordered_at or datetime.now(UTC).replace(
            tzinfo=None
        )  # older control processes do not send the time of the order
        size = guest.vcpus, guest.memory_mib, guest.root_gib
        return cls(
            state,
            origin,
            *size,
            ordered_at,
            guest.image_ref,
            has_config_drive=guest.config_drive is not None,
            ports=tuple(vif.port_id for vif in guest.vifs),
            local_disks=tuple(_local_disks(guest)),
        )


def _local_disks(guest: GuestSpec) -> Iterator[str]:
    for disk in guest.ephemeral:
        yield f"ephemeral disk of {disk.gib} GiB" + (f" ({disk.file_system})" if disk.file_system else "")
    if guest.swap_mib:
        yield f"swap of {guest.swap_mib} MiB"


@dataclass(frozen=True, slots=True)
class Place:
    """Guest and kept guest of one instance on a host. ``kept`` has the power state from before the move."""

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
    """State file of a host's guests. Each change replaces the whole file; changes by other processes are noticed.

    Callers serialize the changes within a process. A change holds a lock of the folder. This lock is shared, unless the
    caller must exclude all other processes that change files in the folder.
    ``on_gone``: called with the uuid of each instance that no longer has a guest or kept guest.
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
        """Return the power states that another process changed since the last call; NOSTATE for removed guests."""
        with self._lock:
            self._refresh()
            taken, self._changes = self._changes, {}
            return taken

    def put(self, uuid: str, **changed: SimulatedGuest | None) -> None:
        """Change the ``guest`` or ``kept`` of an instance, or both, atomically. Raises: DriverError."""
        self.put_all(lambda places: {uuid: replace(places.get(uuid, _NOTHING), **changed)})

    def put_all(self, change: Callable[[Mapping[str, Place]], Mapping[str, Place]], *, alone: bool = False) -> None:
        """Change several instances atomically. ``alone``: exclude concurrent changes by other processes.

        Raises: DriverError.
        """
        with self._lock, self._folder_locked(alone=alone):
            before = self._refresh()
            after, changed = {**before}, False
            for uuid, place in change(before).items():
                if place != before.get(uuid, _NOTHING):
                    changed = True
                    after[uuid] = place
                    if place == _NOTHING:
                        del after[uuid]
            if changed:
                self._store(after)
        for uuid in before.keys() - after.keys():
            self._on_gone(uuid)

    def _refresh(self) -> Mapping[str, Place]:
        """Read the file if it has changed since this process last read or wrote it, and return the guests."""
        with self._lock:
            try:
                stamp = _stamp(self._file.stat())
            except FileNotFoundError:  # the folder was never written or is not mounted: do not report guests as missing
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
        """Replace the file atomically, then the state in memory. If writing fails, neither is changed."""
        draft = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(orjson.dumps(places))
                file.flush()
                stamp = _stamp(os.fstat(file.fileno()))
            os.replace(draft, self._file)  # noqa: PTH105 - the file must be replaced atomically
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise self._refused(error) from error
        self._places, self._stamp = places, stamp

    @contextlib.contextmanager
    def _folder_locked(self, *, alone: bool) -> Iterator[None]:
        """Lock the folder within the block: exclusively if ``alone``, otherwise shared with other agents."""
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
    lists = {name: tuple(value.get(name, ())) for name in ("ports", "local_disks")}
    return SimulatedGuest(**{**value, **enums, "ordered_at": ordered_at, "console": console, **lists})
