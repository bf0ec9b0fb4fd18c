# SPDX-License-Identifier: Apache-2.0
"""The server: threads that wait on one epoll object. The thread that gets an event reads and answers complete requests.

An event wakes only one thread (EPOLLONESHOT). So a request waits at most once for the interpreter lock, even while
another thread of the process computes. One more thread enforces the timeouts.
"""

import contextlib
import logging
import os
import select
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from kilonova.server.connection import READ, Connection, Phase
from kilonova.server.event_streams import EventStreams
from kilonova.server.limits import Limits
from kilonova.server.listening import connections_possible
from kilonova.server.request import Request
from kilonova.server.response import Response, joined, refusal
from kilonova.server.streams import BodyStream, drain, send_all
from kilonova.wsgi_keys import CLIENT_GONE, HAND_OVER

LOG = logging.getLogger(__name__)
Application = Callable[..., Iterable[bytes]]

_SWEEP_S = 0.5
_ACCEPTED_AT_ONCE = 64
_KEPT = 1 << 20  # an answer of at most this size in bytes is sent as a whole, a larger one while it is produced
_WAITING = {Phase.READING, Phase.HANDSHAKE, Phase.LINGERING, Phase.STREAMING}
_TOO_MANY = "Too many uploads and downloads are under way."
_ROOM_MADE = 16  # when there are too many connections, one 16th of those that are not being answered is closed


class Server:
    """Serves one application on its own listening socket, and on those of other servers (:meth:`accept_also_from`).

    ``tls``: TLS context; None for connections without TLS.
    """

    def __init__(
        self,
        application: Application,
        listener: socket.socket,
        limits: Limits,
        threads: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = replace(limits, connections=connections_possible(limits.connections))
        self.stopping = False
        self._swept_enough = threading.Event()
        self._application = application
        self._listener = listener
        #: File descriptor → listening socket, for all listeners.
        self._listeners = {listener.fileno(): listener}
        self._threads = threads
        self._tls = tls
        self._connections: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._end = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._counting = threading.Lock()
        self._received = self._unsent = 0
        self._streams = threading.BoundedSemaphore(limits.max_streams)
        self.event_streams = EventStreams(limits.piece_s)
        self._workers: list[threading.Thread] = []
        host, port = _host_and_port(listener.getsockname())
        self._base = {
            "SCRIPT_NAME": "",
            "SERVER_NAME": str(host),
            "SERVER_PORT": str(port),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if tls else "http",
            "wsgi.errors": _Errors(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }

    # --- from start to end --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads that serve requests."""
        self._epoll.register(self._end, select.EPOLLIN)
        self._epoll.register(self._listener, READ | select.EPOLLONESHOT)
        for number in range(self._threads):
            self._workers.append(threading.Thread(target=self._work, name=f"http-{number}", daemon=True))
        self._workers.append(threading.Thread(target=self._sweep_forever, name="http-sweep", daemon=True))
        for thread in self._workers:
            thread.start()

    def accept_also_from(self, listeners: Iterable[socket.socket]) -> None:
        """Accept connections from these listeners, too; they replace the listeners of an earlier call.

        Call it after :meth:`start`, from one thread at a time. The caller keeps the listeners open.
        """
        if self.stopping:
            return
        wanted = {each.fileno(): each for each in (self._listener, *listeners)}
        before, self._listeners = self._listeners, wanted
        with contextlib.suppress(OSError, ValueError):  # the server may have been stopped concurrently
            for number in before.keys() - wanted.keys():
                self._epoll.unregister(number)
            for number in wanted.keys() - before.keys():
                self._epoll.register(number, READ | select.EPOLLONESHOT)

    def stop(self) -> None:
        """Accept no new requests, wait at most ``stop_s`` for running requests, and close all connections."""
        self.stopping = True
        self._swept_enough.set()
        for number in self._listeners:  # closing is not enough: other processes may have the sockets open
            with contextlib.suppress(OSError):
                self._epoll.unregister(number)
        self._listener.close()
        deadline = time.monotonic() + self.limits.stop_s
        while time.monotonic() < deadline:
            busy = False
            for connection in list(self._connections.values()):
                if connection.lock.acquire(blocking=False):
                    try:
                        waits = connection.phase in _WAITING
                        if waits and not connection.ready:
                            connection.close()
                        else:
                            busy = True
                    finally:
                        connection.lock.release()
                else:
                    busy = True
            if not busy:
                break
            time.sleep(0.01)
        self.event_streams.stop()
        os.eventfd_write(self._end, 1)
        for thread in self._workers:
            thread.join(max(0.05, deadline - time.monotonic()))
        for connection in list(self._connections.values()):
            if connection.lock.acquire(blocking=False):
                connection.close()
        # a thread whose request hangs may still use the epoll object and the eventfd
        if not any(thread.is_alive() for thread in self._workers):
            self._epoll.close()
            os.close(self._end)

    # --- the threads --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        end, poll, connections = self._end, self._epoll.poll, self._connections
        while True:
            for number, _ in poll(-1, 1):
                if number == end:
                    return
                connection = connections.get(number)
                if connection is not None:
                    self._take_turn(connection)
                elif (listener := self._listeners.get(number)) is not None:
                    self._accept(listener)

    def _take_turn(self, connection: Connection) -> None:
        with connection.lock:  # the thread that handled the previous event may still hold the lock
            try:
                if not connection.is_closed:
                    connection.turn()
            except Exception:
                LOG.exception("The handling of a connection failed")
                connection.close()

    def _accept(self, listener: socket.socket) -> None:
        if self.stopping:
            return
        accepted: list[Connection] = []
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                sock, address = listener.accept()
                connection = self._connect(sock, _host_and_port(address))
                if connection is not None:
                    accepted.append(connection)
        except BlockingIOError:
            pass
        except OSError as error:
            if not self.stopping:
                LOG.warning("A connection could not be accepted: %s", error.strerror)
                self._make_room(lambda connection: connection.since)
        with contextlib.suppress(OSError, ValueError):  # the server may have been stopped concurrently
            self._epoll.modify(listener, READ | select.EPOLLONESHOT)
        for connection in accepted[1:]:  # other threads handle these, as _take_turn() may take long
            with connection.lock:
                self.arm(connection, READ)
        for connection in accepted[:1]:
            self._take_turn(connection)  # the first request usually arrives together with the connection

    def _connect(self, sock: socket.socket, address: Any) -> Connection | None:
        if len(self._connections) >= self.limits.connections:
            self._make_room(lambda connection: connection.since)
            # no connection could be closed, because all of them have running requests
            if len(self._connections) >= self.limits.connections:
                sock.close()
                return None
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            try:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:
                sock.close()
                return None
        base = {**self._base, "REMOTE_ADDR": address[0], "REMOTE_PORT": str(address[1])}
        connection = Connection(self, sock, address, base, tls=self._tls is not None)
        base[CLIENT_GONE] = connection.client_gone
        self._connections[sock.fileno()] = connection
        self._epoll.register(sock, select.EPOLLONESHOT)
        return connection

    def _sweep_forever(self) -> None:
        while not self._swept_enough.wait(_SWEEP_S):
            now = time.monotonic()
            for connection in list(self._connections.values()):
                if connection.until < now and connection.lock.acquire(blocking=False):
                    try:
                        if connection.until < now and not connection.is_closed:
                            connection.expire()
                    except Exception:
                        LOG.exception("The timeout of a connection could not be handled")
                        connection.close()
                    finally:
                        connection.lock.release()

    def _make_room(self, key: Callable[[Connection], float]) -> None:
        """Close a 16th of the connections that are not being answered.

        Connections from the client addresses with the most connections are closed first. If several addresses have the
        same number of connections, the connections with the lowest ``key`` are closed first.
        """
        waiting = [each for each in list(self._connections.values()) if each.phase is not Phase.ANSWERING]
        of_address = Counter(connection.address for connection in waiting)
        waiting.sort(key=lambda connection: (-of_address[connection.address], key(connection)))
        wanted = max(1, len(waiting) // _ROOM_MADE)
        for connection in waiting:
            if wanted and connection.lock.acquire(blocking=False):
                wanted -= 1
                try:
                    connection.close()
                finally:
                    connection.lock.release()

    # --- methods for connections --------------------------------------------------------------------------------------

    def arm(self, connection: Connection, events: int) -> None:
        if not connection.is_closed:
            self._epoll.modify(connection.sock.fileno(), events | select.EPOLLONESHOT)

    def admits(self, connection: Connection, request: Request) -> bool:
        path = self.limits.probe_path
        if path is None:
            return True
        response = Response()
        try:
            parts = self._application(request.probe(connection.base, path), response)
            close = getattr(parts, "close", None)
            if close is not None:
                close()
        except Exception:
            LOG.exception("A token could not be checked")
            return False
        # A status 5xx means that the token could not be checked: the application then runs without the body and fails
        # again.
        return bool(response.status) and response.status[:3] != "401" and not response.status.startswith("5")

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection.sock.fileno(), None)

    def hold(self, connection: Connection, size: int) -> None:
        del connection
        with self._counting:
            self._received += size
            too_much = size > 0 and self._received > self.limits.received
        if too_much:  # close the connections with the largest incomplete requests
            self._make_room(lambda connection: -connection.held)

    def owe(self, size: int) -> bool:
        with self._counting:
            self._unsent += size
            return self._unsent <= self.limits.unsent or size < 0

    def answer(self, connection: Connection, request: Request) -> bool:
        if not request.streamed:
            return self._run(connection, request, None, _Permit(self._streams))
        permit = _Permit(self._streams)
        if not permit.obtain():
            connection.send(refusal(503, _TOO_MANY))
            return False
        try:
            return self._run(connection, request, BodyStream(connection, request), permit)
        finally:
            permit.give_back()

    def _run(self, connection: Connection, request: Request, stream: BodyStream | None, permit: "_Permit") -> bool:
        response = Response()
        parts: Any = ()
        try:
            environ = request.environ(connection.base, stream)
            environ[HAND_OVER] = response.hand_over
            parts = self._application(environ, response)
            if response.stream is not None and self._hand_over(connection, request, response):
                return False
            if isinstance(parts, (list, tuple)):
                permit.give_back()
                return self._send(connection, request, response, parts)
            pieces = iter(parts)
            first = _first(pieces, _KEPT)
            if sum(map(len, first)) <= _KEPT:
                # release the permit before sending: the client may start its next upload as soon as it gets the answer
                permit.give_back()
                return self._send(connection, request, response, first)
            return self._send_stream(connection, request, response, chain(first, pieces), permit)
        except OSError as error:  # the connection has failed: an application handles its own OSErrors
            LOG.info("%s %s: %s", request.method, request.path[:200].encode("unicode_escape").decode(), error)
            connection.close()
        except Exception:
            LOG.exception("%s failed", request.method)
            connection.send(refusal(500, "The service failed."))
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()
            if response.stream is not None and connection.stream is None:
                response.stream.close()
        return False

    def _hand_over(self, connection: Connection, request: Request, response: Response) -> bool:
        """Send the headers, and let the stream of the response follow. False if there is to be no stream."""
        stream = response.stream
        assert stream is not None
        if not response.status.startswith("200") or request.method == "HEAD" or self.stopping:
            return False
        connection.send(response.stream_head(request))
        if not connection.is_closed:
            self.event_streams.adopt(connection, stream)
        return True

    def _send(self, connection: Connection, request: Request, response: Response, parts: Any) -> bool:
        body = joined(parts)
        if response.written:
            body = b"".join(response.written) + body
        keep = request.keep_alive and not self.stopping and (not request.streamed or request.complete)
        head = response.head(request, keep=keep, length=len(body))
        if body and request.method != "HEAD" and response.has_body:
            connection.send(head, body)
        else:
            connection.send(head)
        return keep

    def _send_stream(
        self, connection: Connection, request: Request, response: Response, parts: Any, permit: "_Permit"
    ) -> bool:
        """Send an answer piece by piece, while the application produces it."""
        length = response.length
        chunked = length is None and request.version == "1.1" and response.has_body
        keep = request.keep_alive and not self.stopping and (length is not None or chunked)
        keep = keep and (not request.streamed or request.complete)
        if not permit.obtain():
            connection.send(refusal(503, _TOO_MANY))
            return False
        try:
            connection.send(response.head(request, keep=keep, chunked=chunked))
            if request.method == "HEAD" or not response.has_body:
                return keep
            drain(connection)
            send_all(connection, chain(response.written, parts), chunked=chunked)
        except OSError:
            raise
        except Exception as error:  # close the connection: an error page would be taken for a part of this answer
            LOG.exception("%s failed in the middle of its answer", request.method)
            raise ConnectionAbortedError("The application failed in the middle of its answer.") from error
        finally:
            permit.give_back()
        return keep


def _host_and_port(address: Any) -> tuple[str, int]:
    """Return the first two parts of a socket's address. The address of a Unix socket is its path alone."""
    return (os.fsdecode(address), 0) if isinstance(address, str | bytes) else (address[0], address[1])


def _first(pieces: Iterator[bytes], size: int) -> list[bytes]:
    """Return the first pieces, up to the piece with which their total size exceeds ``size`` bytes, or all pieces."""
    taken, found = 0, []
    for piece in pieces:
        found.append(piece)
        taken += len(piece)
        if taken > size:
            break
    return found


class _Permit:
    """Permit for one upload or download. The number of permits is limited. All methods are idempotent."""

    def __init__(self, all_of_them: threading.BoundedSemaphore) -> None:
        self._all = all_of_them
        self._is_held = False

    def obtain(self) -> bool:
        self._is_held = self._is_held or self._all.acquire(blocking=False)
        return self._is_held

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._all.release()


class _Errors:
    """The ``wsgi.errors`` stream: logs each text that an application writes."""

    def write(self, text: str) -> None:
        if text.strip():
            LOG.warning("%s", text.strip())

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: no output is buffered."""
