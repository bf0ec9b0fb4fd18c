# SPDX-License-Identifier: Apache-2.0
"""Tickets for image data: signed permissions for one host to read or write one image until they expire.

::

    ticket  =  key number "." payload "." HMAC-SHA256 of both

Every control process on a database has the same keys. The newest key signs; an older key is valid until every ticket
that it may have signed has expired.
"""

import base64
import binascii
import hmac
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum

from kilonova.records import dataclass

_FORM = b"kilonova image ticket 1"
#: Seconds for which a process may keep signing with a key after another process has made a newer key.
_KEYS_KNOWN_S = 60.0
_ASKED_AT_MOST_EVERY_S = 1.0
_LONGEST = 4096


class Direction(StrEnum):
    """The direction of a transfer, as the host sees it."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class TicketKey:
    """A signing key stored in the database. ``created_at``: seconds since 1970, by the database's clock."""

    id: int
    secret: bytes = field(repr=False)
    created_at: float


@dataclass(frozen=True, slots=True)
class Ticket:
    """The content of a ticket. ``expires_at``: seconds since 1970, by the database's clock."""

    host: str
    image_id: str
    direction: Direction
    expires_at: float


class InvalidTicketError(Exception):
    """A malformed, forged or expired ticket; the reason is not disclosed."""


class TicketOffice:
    """Issues tickets and checks them.

    ``load``: reads the keys, the newest last. ``now``: seconds since 1970, by the clock of the database.
    ``lifetime_s``: seconds during which a ticket can start a transfer.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[TicketKey]],
        now: Callable[[], float],
        lifetime_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._now = now
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[TicketKey, ...] = ()
        self._loaded_at = float("-inf")

    def issue(self, host: str, image_id: str, direction: Direction) -> str:
        """Return a ticket. Raises: Unavailable if the keys cannot be read."""
        key = self._known(_KEYS_KNOWN_S)[-1]
        said = json.dumps([host, image_id, direction, int(self._now() + self._lifetime_s)], separators=(",", ":"))
        signed = f"{key.id}.{_to_text(said.encode())}"
        return f"{signed}.{_to_text(_sign(key, signed))}"

    def read(self, text: str) -> Ticket:
        """Verify and decode a ticket. Raises: InvalidTicketError; Unavailable if the keys cannot be read."""
        if len(text) > _LONGEST or not text.isascii():
            raise InvalidTicketError
        signed, _, signature = text.rpartition(".")
        number, _, payload = signed.partition(".")
        key = self._key(number)
        if key is None or not hmac.compare_digest(_to_text(_sign(key, signed)), signature):
            raise InvalidTicketError
        try:
            host, image_id, direction, expires_at = json.loads(_from_text(payload))
            ticket = Ticket(host, image_id, Direction(direction), expires_at)
        except (ValueError, TypeError, binascii.Error):
            raise InvalidTicketError from None
        if ticket.expires_at <= self._now():
            raise InvalidTicketError
        return ticket

    def _key(self, number: str) -> TicketKey | None:
        """Return the key with this number, or None if no ticket signed with it can still be valid."""
        keys = self._known(_KEYS_KNOWN_S)
        if not any(str(key.id) == number for key in keys):
            keys = self._known(_ASKED_AT_MOST_EVERY_S)  # another process may just have made the key
        for key, newer in zip(keys, (*keys[1:], None), strict=True):
            if str(key.id) == number:
                last = float("inf") if newer is None else newer.created_at + _KEYS_KNOWN_S + self._lifetime_s
                return key if self._now() < last else None
        return None

    def _known(self, oldest_s: float) -> tuple[TicketKey, ...]:
        """Return the keys, read again from the database if the cached ones are older than ``oldest_s`` seconds."""
        with self._lock:
            if self._clock() - self._loaded_at >= oldest_s:
                self._keys = tuple(self._load())
                self._loaded_at = self._clock()
            return self._keys


def _sign(key: TicketKey, signed: str) -> bytes:
    return hmac.digest(key.secret, _FORM + b"\n" + signed.encode(), "sha256")


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_text(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
