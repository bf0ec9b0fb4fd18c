# SPDX-License-Identifier: Apache-2.0
"""Where messages go: a file of our own, or what oslo.messaging knows."""

import logging
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson

from kilonova.clock import utc_now
from kilonova.identifiers import new_uuid
from kilonova.logs.rotation import LogFile, RotatingLog
from kilonova.model.requester import Requester
from kilonova.notifications.message import Format, Message

LOG = logging.getLogger(__name__)
_MAX_BYTES = 200 * 2**20
_KEPT = 5
_LOG_OF_DRIVERS = "oslo_messaging.notify.messaging"
_LONGEST_PAUSE_S = 30.0


class Sink(Protocol):
    """Used by one thread."""

    def send(self, message: Message) -> None:
        """Send a message; this may take as long as a broker is away. Raises: UnsentError, or what a driver raises."""

    def hurry(self) -> None:
        """From now on have nothing wait for a broker that is away. May be called from any thread."""

    def close(self) -> None:
        """Let go of what is open."""


class UnsentError(Exception):
    """A message could not be sent."""


class FileSink:
    """Writes each message as a line of JSON, with the keys that it has at a broker."""

    def __init__(self, path: Path, level: str) -> None:
        self._level = level
        self._file = _Lines(LogFile(path, _MAX_BYTES, _KEPT))
        self._file.setFormatter(logging.Formatter("%(message)s"))

    def send(self, message: Message) -> None:
        line = {
            "message_id": new_uuid(),
            "publisher_id": message.publisher,
            "timestamp": f"{utc_now():%Y-%m-%d %H:%M:%S.%f}",
            "priority": "ERROR" if message.is_error else self._level,
            "event_type": message.event_type,
            "payload": message.payload,
            **{f"_context_{name}": value for name, value in context_of(message.who).items()},
        }
        text = orjson.dumps(line, default=str).decode()
        self._file.handle(logging.makeLogRecord({"msg": text}))

    def hurry(self) -> None:
        """A file is always there."""

    def close(self) -> None:
        self._file.close()


class _Lines(RotatingLog):
    """A file of lines that are missed: whoever writes one is told when it could not be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Raise UnsentError (a full disk)."""
        del record
        error = sys.exc_info()[1]
        raise UnsentError(str(error)) from error


class MessagingSink:
    """Hands messages to the drivers of oslo.messaging that its configuration names, and tries again as often as asked.

    A driver of oslo.messaging gives up at once when it finds no broker, and says so in its log only.

    ``retry``: how often a message is tried again; -1: until it is sent.
    ``conf``: of its own. ``topics``: of versioned messages. ``exchange``: at which consumers bind their queues, unless
    ``conf`` names another. ``needs_broker``: whether a driver speaks to one.
    """

    def __init__(
        self, conf: Any, *, topics: Sequence[str], level: str, exchange: str, retry: int, needs_broker: bool
    ) -> None:
        oslo_messaging = _oslo_messaging()
        oslo_messaging.set_transport_defaults(exchange)
        self._transport = oslo_messaging.get_notification_transport(conf, url=None if needs_broker else "fake://")
        self._notifiers: Mapping[Format, Any] = {
            Format.UNVERSIONED: oslo_messaging.Notifier(self._transport),
            Format.VERSIONED: oslo_messaging.Notifier(self._transport, topics=list(topics)),
        }
        self._level = level.lower()
        self._retry = retry
        self._hurries = threading.Event()
        self._failures = _Failures()
        logging.getLogger(_LOG_OF_DRIVERS).addFilter(self._failures)

    def send(self, message: Message) -> None:
        tries = 0
        while (error := self._try(message)) is not None:
            if self._hurries.is_set() or tries == self._retry:
                raise UnsentError(str(error)) from error
            if not tries:
                LOG.warning("Notifications wait for their broker: %s", error)
            tries += 1
            self._hurries.wait(min(_LONGEST_PAUSE_S, 2.0 ** (tries - 1)))
        if tries:
            LOG.info("Notifications are sent again")

    def _try(self, message: Message) -> BaseException | None:
        """Send a message; return why it was not sent."""
        notifier = self._notifiers[message.format].prepare(publisher_id=message.publisher)
        tell = getattr(notifier, "error" if message.is_error else self._level)
        self._failures.last = None
        tell(_Context(context_of(message.who)), message.event_type, message.payload)
        return self._failures.last

    def hurry(self) -> None:
        self._hurries.set()

    def close(self) -> None:
        logging.getLogger(_LOG_OF_DRIVERS).removeFilter(self._failures)
        self._transport.cleanup()


class _Failures(logging.Filter):
    """Takes what drivers log when they could not send a message, with all that is in it, and remembers why."""

    last: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None:
            self.last = error
        return error is None


class _Context(dict[str, str | None]):
    """Who asked, in the form that oslo.messaging takes for one without secrets; it drops plain dictionaries."""

    def redacted_copy(self) -> dict[str, str | None]:
        """Return what may be sent."""
        return dict(self)


def _oslo_messaging() -> Any:
    """Import oslo.messaging, which brings much that nobody needs without notifications.

    Where eventlet is installed it is imported, and warns of itself; nothing is patched, and threads stay threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from oslo_service import backend  # noqa: PLC0415

        backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
        import oslo_messaging  # noqa: PLC0415
    return oslo_messaging


def context_of(who: Requester | None) -> dict[str, str | None]:
    """Return who asked, as consumers find it beside the payload. A token is never part of it."""
    if who is None:
        return {"request_id": None, "user_id": None, "project_id": None}
    return {"request_id": who.request_id, "user_id": who.user_id or None, "project_id": who.project_id or None}
