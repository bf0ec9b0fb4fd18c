# SPDX-License-Identifier: Apache-2.0
"""Connections to the libvirtd of a host: opened on demand and reopened after a failure.

A call blocks its thread until libvirtd answers, or until keep-alive messages show that libvirtd no longer answers.
Each thread has its own connection, and a further connection receives events. Threads share no connection, because
libvirt's client has two defects: if a connection breaks while several threads wait on it, some of them may wait for
ever; and closing a connection during a call crashes the process.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaitingError
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import libvirt

from kilonova.errors import DriverError, HypervisorAway

LOG = logging.getLogger(__name__)
_OPEN_S = 30.0
_ALIVE_EVERY_S, _ALIVE_COUNT = 5, 4
_GONE = frozenset({libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_INVALID_CONN, libvirt.VIR_ERR_NO_CONNECT})
_ON_THE_WAY = frozenset({libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE})

#: Callback with the uuid of a domain and the event, one of libvirt's VIR_DOMAIN_EVENT_… numbers.
OnEvent = Callable[[str, int], None]
T = TypeVar("T")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn a libvirt error into a DriverError "The hypervisor could not ``what``", with the libvirt error as its cause.

    Raises: HypervisorAway for a lost connection, DriverError.
    """
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() in _GONE or error.get_error_domain() in _ON_THE_WAY:
            raise HypervisorAway from error
        LOG.warning("libvirt could not %s: %s", what, error)
        raise DriverError(f"The hypervisor could not {what}.") from error


class Connection:
    """The connections to one libvirtd.

    ``on_event``: called with events of domains. ``on_open``: called each time when the connection for events has been
    opened, since events before that may have been missed.
    ``alive_every_s``: seconds between keep-alive messages. ``alive_count``: number of unanswered keep-alive messages
    after which a connection counts as lost.
    """

    def __init__(
        self,
        uri: str,
        on_event: OnEvent,
        on_open: Callable[[], None],
        *,
        alive_every_s: int = _ALIVE_EVERY_S,
        alive_count: int = _ALIVE_COUNT,
    ) -> None:
        self._uri = uri
        self._alive = alive_every_s, alive_count
        self._on_event = on_event
        self._on_open = on_open
        self._lock = threading.Lock()
        #: The connection that receives events (a ``virConnect``), and libvirt's number for the registered callback.
        self._events: tuple[Any, int] | None = None
        self._opening: Future[tuple[Any, int]] | None = None
        self._own = threading.local()
        self._is_closed = False
        self._has_complained = False

    def use(self) -> Any:
        """Return the connection of this thread, a ``virConnect``. Raises: HypervisorAway."""
        self._listen()
        own = getattr(self._own, "connection", None)
        if own is None or not own.isAlive():
            own = self._own.connection = self._opened(_begin(self._connect))
        return own

    def _listen(self) -> None:
        """Open the connection that receives events, unless it is alive. Raises: HypervisorAway."""
        with self._lock:
            if self._is_closed:
                raise HypervisorAway
            if self._events is not None and self._events[0].isAlive():
                return
            self._let_go()
            opening = self._opening = self._opening or _begin(self._connect_for_events)
        try:
            found = self._opened(opening)
        except HypervisorAway:
            with self._lock:
                if self._opening is opening and opening.done():
                    self._opening = None
            raise
        with self._lock:
            is_new = self._opening is opening
            if is_new:
                self._events, self._opening = found, None
        if is_new:
            LOG.info(
                "Connected to libvirtd at %s: libvirt %d, %s", self._uri, found[0].getLibVersion(), found[0].getType()
            )
            self._has_complained = False
            self._on_open()

    def _opened(self, opening: Future[T]) -> T:
        """Wait until a connection has been opened, and return it. Raises: HypervisorAway."""
        try:
            return opening.result(_OPEN_S)
        except StillWaitingError as error:
            self._complain(f"no answer within {_OPEN_S:.0f} s")
            raise HypervisorAway from error
        except libvirt.libvirtError as error:
            self._complain(str(error))
            raise HypervisorAway from error

    def _complain(self, why: str) -> None:
        """Log that libvirtd is unreachable, unless this was logged since the last successful connection."""
        if not self._has_complained:
            self._has_complained = True
            LOG.warning("libvirtd at %s cannot be reached; retrying: %s", self._uri, why)

    def close(self) -> None:
        """Close the event connection permanently. Each thread's own connection is closed when the thread ends."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def _connect(self) -> Any:
        _run_event_loop()
        found = libvirt.open(self._uri)
        found.setKeepAlive(*self._alive)
        return found

    def _connect_for_events(self) -> tuple[Any, int]:
        found = self._connect()
        number = found.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._happened, None)
        return found, number

    def _happened(self, _connection: Any, domain: Any, event: int, _detail: int, _opaque: Any) -> None:
        self._on_event(domain.UUIDString(), event)

    def _let_go(self) -> None:
        """Drop the connection that receives events, without waiting for a libvirtd that may hang."""
        gone, self._events = self._events, None
        if gone is not None:
            threading.Thread(target=_silence, args=gone, name="libvirt-close", daemon=True).start()


def _silence(connection: Any, events: int) -> None:
    """Deregister the event callback of a connection: a connection with a callback would never be closed."""
    with suppress(libvirt.libvirtError):  # on a lost connection, libvirt deregisters the callback and raises an error
        connection.domainEventDeregisterAny(events)


def _begin(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` in a new thread, since it may hang as long as libvirtd hangs; return a future for its result."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - passed to the waiting thread
            future.set_exception(error)

    threading.Thread(target=run, name="libvirt-open", daemon=True).start()
    return future


# --- libvirt's event loop, one per process ----------------------------------------------------------------------------

_loop_lock = threading.Lock()
_loop: threading.Thread | None = None


def _run_event_loop() -> None:
    """Start the daemon thread of libvirt's event loop. The loop has to run before a connection is opened."""
    global _loop  # noqa: PLW0603 - libvirt has one event loop for each process
    with _loop_lock:
        if _loop is not None:
            return
        libvirt.registerErrorHandler(lambda *_: None, None)  # otherwise libvirt prints each error besides raising it
        libvirt.virEventRegisterDefaultImpl()
        _loop = threading.Thread(target=_turn_for_ever, name="libvirt-events", daemon=True)
        _loop.start()


def _turn_for_ever() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            LOG.exception("libvirt's event loop failed")
