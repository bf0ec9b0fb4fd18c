# SPDX-License-Identifier: Apache-2.0
"""Hand messages to oslo.messaging, so that a broker which is away loses few of them, and gets none twice."""

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
#: These send a message to each of several topics; others do something with it once.
_BY_TOPIC = frozenset({"messaging", "messagingv2"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
#: A function of py-amqp, and what it calls once the broker may have the message.
_HANDED_OVER = frozenset({("_basic_publish", "send_method"), ("basic_publish_confirm", "wait")})


class MessagingSink:
    """Hands messages to the drivers of oslo.messaging that its configuration names.

    A driver gives up at once when it finds no broker, and says so in its log only; so this tries again, as often as
    asked. What was on its way when a broker went away is not tried again: nobody can tell whether it was taken.

    ``retry``: how often a message that no broker can have is tried again; -1: until it is sent.
    ``conf``: of its own. ``drivers``: those of it that send something. ``topics``: by format. ``exchange``: at which
    consumers bind their queues, unless ``conf`` names another. ``needs_broker``: whether a driver speaks to one.
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

        #: Each fails or succeeds as a whole.
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
                raise UnsentError(f"its broker went away before it said that it has it: {error}") from error
            if self._hurries.is_set() or tries == self._retry:
                raise UnsentError(str(error)) from error
            if not tries:
                LOG.warning("Notifications wait for their broker: %s", error)
            tries += 1
            self._hurries.wait(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        if tries:
            LOG.info("Notifications are sent again")

    def _try(self, notifier: Any, message: Message) -> BaseException | None:
        """Send a message; return why it was not sent."""
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
    """Tell whether a message was handed to a broker of which it is not known whether it took it.

    Errors are the same when there is no connection, so that where they come from decides. A connection that is found
    closed before anything is written raises from elsewhere, and a broker that cannot be reached does so, too.
    """
    while error is not None:
        calls = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not _HANDED_OVER.isdisjoint(pairwise(calls)):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Failures(logging.Filter):
    """Takes what drivers log when they could not send a message, with all that is in it, and remembers why."""

    last: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None:
            self.last = error
        return error is None


class _NowAndThen(logging.Filter):
    """Lets a line a minute through of what connections say to each attempt of theirs to reach a broker."""

    def __init__(self) -> None:
        super().__init__()
        self._complaints = RateLimitedLog(LOG)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return record.levelno < logging.INFO  # the sink says itself when it waits, and when it does no more
        self._complaints.complain("connection", f"The connection for notifications: {record.getMessage()}")
        return False


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
        from oslo_service import backend  # noqa: PLC0415 - start-up time

        backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
        import oslo_messaging  # noqa: PLC0415 - start-up time
    return oslo_messaging
