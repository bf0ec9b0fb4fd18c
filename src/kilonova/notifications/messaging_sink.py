# SPDX-License-Identifier: Apache-2.0
"""Notification sink that sends by oslo.messaging. It retries, but never sends a message twice."""

import logging
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.notifications.message import Format, Message
from kilonova.notifications.sinks import UnsentError, context_of

LOG = logging.getLogger(__name__)
_LOG_OF_DRIVERS = "oslo_messaging.notify.messaging"
_LOG_OF_CONNECTIONS = "oslo.messaging._drivers.impl_rabbit"
#: Drivers of oslo.messaging that send a message once per topic. The other drivers handle a message once for all topics.
_BY_TOPIC = frozenset({"messaging", "messagingv2"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
#: (caller, callee) pairs of py-amqp functions. If a traceback contains one, the broker may have received the message.
_HANDED_OVER = frozenset({("_basic_publish", "send_method"), ("basic_publish_confirm", "wait")})


class MessagingSink:
    """Sends messages through the configured oslo.messaging notification drivers.

    A driver gives up after the first failed attempt and only logs the failure, so this class retries. A message that
    was in transit when the connection broke is not sent again, because the broker may have received it.

    ``retry``: number of retries while the broker is unreachable; -1 for no limit.
    ``conf``: oslo.config object that only this sink uses. ``drivers``: names of the configured drivers that send
    messages. ``topics``: format → topics. ``exchange``: default exchange. ``needs_broker``: whether any driver connects
    to a broker.
    """

    def __init__(
        self,
        conf: Any,
        *,
        drivers: Sequence[str],
        topics: Mapping[Format, Sequence[str]],
        level: str,
        exchange: str,
        retry: int,
        needs_broker: bool,
    ) -> None:
        oslo_messaging = _oslo_messaging()
        oslo_messaging.set_transport_defaults(exchange)
        self._transport = oslo_messaging.get_notification_transport(conf, url=None if needs_broker else "fake://")

        def notifiers(names: Sequence[str]) -> Iterator[Any]:
            for driver in drivers:
                for some in [[name] for name in names] if driver in _BY_TOPIC else [list(names)]:
                    yield oslo_messaging.Notifier(self._transport, driver=driver, topics=some, retry=0)

        #: Format → notifiers. A notifier sends to one topic, or has a driver that handles all topics at once; so a send
        #: never succeeds for one topic and fails for another.
        self._notifiers = {format_: tuple(notifiers(names)) for format_, names in topics.items()}
        self._level = level.lower()
        self._retry = retry
        self._hurries = threading.Event()
        self._failures = _Failures()
        self._now_and_then = _NowAndThen()
        logging.getLogger(_LOG_OF_DRIVERS).addFilter(self._failures)
        logging.getLogger(_LOG_OF_CONNECTIONS).addFilter(self._now_and_then)

    def send(self, message: Message) -> None:
        unsent = None
        for notifier in self._notifiers[message.format]:
            try:
                self._send(notifier, message)
            except UnsentError as error:
                unsent = error
        if unsent is not None:
            raise unsent

    def _send(self, notifier: Any, message: Message) -> None:
        tries, pause_s = 0, _FIRST_PAUSE_S
        while (error := self._try(notifier, message)) is not None:
            if may_have_arrived(error):
                raise UnsentError(f"the connection broke before the broker confirmed the message: {error}") from error
            if self._hurries.is_set() or tries == self._retry:
                raise UnsentError(str(error)) from error
            if not tries:
                LOG.warning("Notifications wait for the broker: %s", error)
            tries += 1
            self._hurries.wait(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        if tries:
            LOG.info("Notifications reach the broker again")

    def _try(self, notifier: Any, message: Message) -> BaseException | None:
        """Send a message; return the error of the driver, or None if the message was sent."""
        prepared = notifier.prepare(publisher_id=message.publisher)
        tell = getattr(prepared, "error" if message.is_error else self._level)
        self._failures.last = None
        tell(_Context(context_of(message.who)), message.event_type, message.payload)
        return self._failures.last

    def hurry(self) -> None:
        self._hurries.set()

    def close(self) -> None:
        logging.getLogger(_LOG_OF_DRIVERS).removeFilter(self._failures)
        logging.getLogger(_LOG_OF_CONNECTIONS).removeFilter(self._now_and_then)
        self._transport.cleanup()


def may_have_arrived(error: BaseException | None) -> bool:
    """Tell whether the broker may have received a message although sending it failed.

    The type of the exception does not show whether there was a connection, so the traceback is checked: with a closed
    connection or an unreachable broker, no publishing function of py-amqp was called.
    """
    while error is not None:
        calls = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not _HANDED_OVER.isdisjoint(pairwise(calls)):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Failures(logging.Filter):
    """Log filter that drops a driver's log record of a failed send, and remembers the exception of the record.

    The record is dropped because it contains the whole message.
    """

    last: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None:
            self.last = error
        return error is None


class _NowAndThen(logging.Filter):
    """Log filter that limits log records about connection attempts to one line a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._complaints = RateLimitedLog(LOG)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return record.levelno < logging.INFO  # drops INFO, because this sink itself logs outages of the broker
        self._complaints.complain("connection", f"Notification connection: {record.getMessage()}")
        return False


class _Context(dict[str, str | None]):
    """Request context in a form that oslo.messaging sends unchanged.

    oslo.messaging sends the result of ``redacted_copy``. oslo.messaging would replace a plain dict by an empty one.
    """

    def redacted_copy(self) -> dict[str, str | None]:
        """Return all fields: no field is a secret."""
        return dict(self)


def _oslo_messaging() -> Any:
    """Import and return oslo.messaging. Its many imports are needed only if a notification driver is configured.

    oslo.messaging imports eventlet if that is installed; the warnings of eventlet are suppressed. Nothing is
    monkey-patched.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from oslo_service import backend  # noqa: PLC0415 - start-up time

        backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
        import oslo_messaging  # noqa: PLC0415 - start-up time
    return oslo_messaging
