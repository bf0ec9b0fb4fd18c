# SPDX-License-Identifier: Apache-2.0
"""The guests of a simulated hypervisor, in a file: instance uuid → its guest, and the one kept for a move.

Files of earlier releases are read as what they mean. The first ones had only the power state of each guest, as a
number. Until marks came, each guest in a file was ours, and was ordered at the latest when the file was last written.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
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


class GuestFile:
    """Reads the file once and replaces it whole at every change. Callers see to it that changes come one by one.

    ``on_gone``: told of an instance of which the host has nothing any more.
    """

    def __init__(self, host: str, file: Path, on_gone: Callable[[str], object] = lambda _uuid: None) -> None:
        self._host = host
        self._file = file
        self._on_gone = on_gone
        self._places = self._read()

    @property
    def places(self) -> Mapping[str, Place]:
        return self._places

    def guest(self, uuid: str) -> SimulatedGuest | None:
        return self._places.get(uuid, Place()).guest

    def kept(self, uuid: str) -> SimulatedGuest | None:
        return self._places.get(uuid, Place()).kept

    def put(self, uuid: str, **changed: SimulatedGuest | None) -> None:
        """Change the ``guest`` or what is ``kept`` of an instance, or both in one step. Raises: DriverError."""
        before = self._places.get(uuid, Place())
        after = replace(before, **changed)
        if after == before:
            return
        places = {**self._places, uuid: after}
        if after == Place():
            del places[uuid]
        self._store(places)
        if after == Place():
            self._on_gone(uuid)

    def _read(self) -> dict[str, Place]:
        try:
            stored: dict[str, Any] = orjson.loads(self._file.read_bytes())
            written_at = datetime.fromtimestamp(self._file.stat().st_mtime, UTC).replace(tzinfo=None)
        except FileNotFoundError:
            return {}
        return {uuid: _place(value, written_at) for uuid, value in stored.items()}

    def _store(self, places: dict[str, Place]) -> None:
        """Replace the file in one step, then what is known here: a kill or a full disk leaves both as they were."""
        draft = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(orjson.dumps(places))
            os.replace(draft, self._file)  # noqa: PTH105 - the one-step replace is the point
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise DriverError(f"Host {self._host} cannot store its guests: {error.strerror}.") from error
        self._places = places


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
