# SPDX-License-Identifier: Apache-2.0
"""Workers as forked processes: parent and worker are connected by a socket pair, and the worker dies with its parent.

Messages: the worker sends :data:`READY` once. The parent sends the byte ``#``, followed by the numbers of
the workers whose listeners the receiver has to serve, one byte for each number.
"""

import contextlib
import gc
import logging
import multiprocessing
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.cli.workers.supervision import CannotServeError, Ending, Supervision
from kilonova.errors import Unavailable
from kilonova.identifiers import new_uuid
from kilonova.process_signals import wakeup
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Maximum number of workers; a worker's number fits into one byte.
MOST = 64
READY = b"ready"
_NUMBERS = b"#"
_LONGEST = 1 + MOST
#: Number of ended processes that a new worker is told about; the leases of earlier ones have expired.
_PREDECESSORS = 8
_STOPS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = (*_STOPS, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """A worker. ``owner``: uuid of its control process. ``predecessors``: uuids of ended processes that it replaces."""

    number: int
    owner: str
    predecessors: tuple[str, ...] = ()

    @property
    def serves_hosts(self) -> bool:
        """Whether this worker runs the hosts of the control processes; exactly one worker does."""
        return self.number == 1


class ListeningServer(Protocol):
    """The part of a server that a worker uses."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def accept_also_from(self, listeners: Collection[socket.socket]) -> None: ...


class Worker:
    """The current process as a worker. ``listeners``: one for each worker, in the order of their numbers."""

    def __init__(self, identity: WorkerIdentity, listeners: Sequence[socket.socket], parent: socket.socket) -> None:
        self.identity = identity
        self._listeners = tuple(listeners)
        self._parent = parent

    @property
    def listener(self) -> socket.socket:
        return self._listeners[self.identity.number - 1]

    def serving(self, server: ListeningServer) -> "_WorkerServer":
        """Return the server of this worker, which reports its start to the parent and obeys the parent's messages."""
        return _WorkerServer(server, self._listeners, self._parent)


class _WorkerServer:
    """A server that also accepts connections from the listeners that the parent names."""

    def __init__(self, server: ListeningServer, listeners: Sequence[socket.socket], parent: socket.socket) -> None:
        self._server = server
        self._listeners = listeners
        self._parent = parent

    def start(self) -> None:
        self._server.start()
        self._parent.send(READY)
        threading.Thread(target=self._obey, name="workers", daemon=True).start()

    def stop(self) -> None:
        self._server.stop()

    def _obey(self) -> None:
        with contextlib.suppress(OSError):
            while message := self._parent.recv(_LONGEST):
                self._server.accept_also_from([self._listeners[number - 1] for number in message[1:]])


class Forked:
    """A forked worker, as its parent sees it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel = channel
        self._is_ready = False

    def is_ready(self) -> bool:
        if not self._is_ready:
            with contextlib.suppress(OSError):
                self._is_ready = self.channel.recv(len(READY)) == READY
        return self._is_ready

    def has_ended(self) -> bool:
        return bool(_readable([self.pidfd], 0))

    def accept_from(self, numbers: Collection[int]) -> None:
        with contextlib.suppress(OSError):  # the worker has just ended
            self.channel.send(_NUMBERS + bytes(sorted(numbers)))

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def ending(self) -> Ending:
        _, status = os.waitpid(self.pid, 0)
        self.forget()
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return Ending(code, f"ended with exit status {code}")
        return Ending(None, f"was killed by {signal.Signals(-code).name}")

    def forget(self) -> None:
        """Close the descriptors."""
        os.close(self.pidfd)
        self.channel.close()


class _InWorkerError(BaseException):
    """Unwinds the stack of the parent's functions in a new worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker


def run_workers(listeners: Sequence[socket.socket], on_hangup: Callable[[], None]) -> Worker | int:
    """Fork a worker for each listener, and replace workers that end, until SIGTERM or SIGINT stops all of them.

    In each worker process, return a Worker. In the parent, return the exit status after the end of all workers. Call
    this from the main thread, without other threads. ``on_hangup``: handler of SIGHUP in the parent; serving workers
    get the signal, too. Raises: Unavailable.
    """
    try:
        return _Parent(listeners, on_hangup).run()
    except _InWorkerError as forked:
        return forked.worker


class _Parent:
    """The parent of the workers. It keeps all listeners open and never accepts a connection."""

    def __init__(self, listeners: Sequence[socket.socket], on_hangup: Callable[[], None]) -> None:
        self._listeners = listeners
        self._on_hangup = on_hangup
        #: Worker number → uuids of its control processes, in the order of their starts.
        self._owners: dict[int, tuple[str, ...]] = {}
        self._forked: dict[int, Forked] = {}
        self._supervision = Supervision(len(listeners), self._fork)

    def run(self) -> int:
        received: set[int] = set()
        failure: CannotServeError | None = None
        gc.freeze()  # keeps garbage collection in workers from copying memory pages shared with the parent
        with wakeup() as signals, _handlers(received.add):
            while not received & {*_STOPS}:
                if signal.SIGHUP in received:
                    received.discard(signal.SIGHUP)
                    self._hang_up()
                try:
                    timeout_s = self._supervision.step()
                except CannotServeError as error:
                    failure = error
                    break
                if _readable([signals.fileno(), *self._descriptors()], timeout_s) & {signals.fileno()}:
                    signals.wait()
            for number in _HANDLED:
                signal.signal(number, signal.SIG_IGN)
            self._stop()
        if failure is None:
            return 0
        if failure.ending.status is None:
            raise Unavailable(f"Worker {failure.number} {failure.ending.text} at its start.")
        return failure.ending.status or 1

    def _descriptors(self) -> Iterator[int]:
        for number, worker in self._forked.items():
            if number in self._supervision.running:
                yield worker.pidfd
                if number not in self._supervision.serving:
                    yield worker.channel.fileno()

    def _hang_up(self) -> None:
        self._on_hangup()
        for number in self._supervision.serving:
            self._forked[number].send_signal(signal.SIGHUP)

    def _stop(self) -> None:
        """Close the port, stop all workers, and wait until they have exited."""
        for listener in self._listeners:
            listener.close()
        running = [self._forked[number] for number in self._supervision.running]
        for worker in running:
            worker.send_signal(signal.SIGTERM)
        for worker in running:
            worker.ending()

    def _fork(self, number: int) -> Forked:
        """Start a worker. Raises: OSError; in the new worker process, _InWorkerError."""
        identity = WorkerIdentity(number, new_uuid(), self._owners.get(number, ())[-_PREDECESSORS:])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        parent = os.getpid()
        # Block signals until the worker has replaced the parent's handlers: an earlier signal would be lost.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            self._become_worker(identity, parent)
            ours.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            raise _InWorkerError(Worker(identity, self._listeners, theirs))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        self._owners[number] = (*identity.predecessors, identity.owner)
        self._forked[number] = Forked(pid, ours)
        return self._forked[number]

    def _become_worker(self, identity: WorkerIdentity, parent: int) -> None:
        """Turn the forked process into a worker. Exit on an error: the process must not act as a second parent."""
        try:
            die_with_parent(parent)
            for each in _HANDLED:
                signal.signal(each, signal.SIG_DFL)
            for running in self._supervision.running:
                self._forked[running].forget()
            multiprocessing.current_process().name = f"worker {identity.number}"
        except BaseException:
            LOG.exception("Worker %d could not be started", identity.number)
            os._exit(1)


@contextmanager
def _handlers(on_signal: Callable[[int], object]) -> Iterator[None]:
    """Handle signals by ``on_signal``. Restore the earlier handlers if the block raises, except in a new worker."""
    before = {number: signal.signal(number, lambda got, _frame: on_signal(got)) for number in _HANDLED}
    try:
        yield
    except _InWorkerError:
        raise
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise


def _readable(descriptors: Sequence[int], timeout_s: float | None) -> set[int]:
    """Wait until one of the descriptors is readable; return those that are."""
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return {number for number, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
