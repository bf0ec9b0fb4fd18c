# SPDX-License-Identifier: Apache-2.0
"""The connections to the libvirtd of a host: opened when they are needed, and anew after they broke.

Calls block the thread that makes them, at most until keep-alive messages find that nobody answers any more. Each thread
has a connection of its own, and one more tells of events: where several threads wait for answers on one connection when
it breaks, libvirt's client may leave some of them waiting for ever, and one that is closed under a call crashes.
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

#: uuid of the domain, and what has happened to it: one of libvirt's VIR_DOMAIN_EVENT_…
OnEvent = Callable[[str, int], None]
T = TypeVar("T")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what libvirt raises into a DriverError that says what could not be done. What libvirt said is its cause."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() in _GONE or error.get_error_domain() in _ON_THE_WAY:
            raise HypervisorAway from error
        LOG.warning("libvirt could not %s: %s", what, error)
        raise DriverError(f"The hypervisor could not {what}.") from error


class Connection:
    """Those to one libvirtd.

    ``on_event``: told of what happens to domains; ``on_open``: that events may have been missed.
    ``alive_every_s``, ``alive_count``: it counts as gone once so many messages, so far apart, were not answered.
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
        #: What tells of events, a ``virConnect``, and the number under which it does.
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
        """See to it that events are told. Raises: HypervisorAway."""
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
            LOG.info("libvirtd at %s: libvirt %d, %s", self._uri, found[0].getLibVersion(), found[0].getType())
            self._has_complained = False
            self._on_open()

    def _opened(self, opening: Future[T]) -> T:
        """Wait for a connection. Raises: HypervisorAway."""
        try:
            return opening.result(_OPEN_S)
        except StillWaitingError as error:
            self._complain(f"no answer within {_OPEN_S:.0f} s")
            raise HypervisorAway from error
        except libvirt.libvirtError as error:
            self._complain(str(error))
            raise HypervisorAway from error

    def _complain(self, why: str) -> None:
        """Log that it is away, once until it is back."""
        if not self._has_complained:
            self._has_complained = True
            LOG.warning("libvirtd at %s cannot be reached, and is tried again: %s", self._uri, why)

    def close(self) -> None:
        """Let go of them, for good. Those of threads are closed when these end."""
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
        """Forget what tells of events, without waiting for a libvirtd that may hang."""
        gone, self._events = self._events, None
        if gone is not None:
            threading.Thread(target=_silence, args=gone, name="libvirt-close", daemon=True).start()


def _silence(connection: Any, events: int) -> None:
    """Have a connection tell of no events any more, which keeps it from being closed."""
    with suppress(libvirt.libvirtError):  # it is gone, but does no less
        connection.domainEventDeregisterAny(events)


def _begin(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread of its own, which may hang for as long as libvirtd does."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - goes to whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name="libvirt-open", daemon=True).start()
    return future


# --- libvirt's event loop, one a process ------------------------------------------------------------------------------

_loop_lock = threading.Lock()
_loop: threading.Thread | None = None


def _run_event_loop() -> None:
    """Have libvirt's own loop run in a thread, which ends with the process. It has to run before anything is opened."""
    global _loop  # noqa: PLW0603 - libvirt has one loop a process
    with _loop_lock:
        if _loop is not None:
            return
        libvirt.registerErrorHandler(lambda *_: None, None)  # it would print what is raised as well
        libvirt.virEventRegisterDefaultImpl()
        _loop = threading.Thread(target=_turn_for_ever, name="libvirt-events", daemon=True)
        _loop.start()


def _turn_for_ever() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            LOG.exception("libvirt's event loop failed")
