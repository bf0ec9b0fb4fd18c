# SPDX-License-Identifier: Apache-2.0
"""Placement servers to measure (Kilonova's, and OpenStack's from ``.venv-placement``), and a low-overhead client."""

import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from tests.support.database_servers import DatabaseServer

from benchmarks._placement_data import Provider, fill
from kilonova.bundled_services.free_ports import free_port

PEER_VENV = Path(__file__).parents[1] / ".venv-placement"
_SOURCE = Path(__file__).parents[1] / "src"
_START_S = 120.0
_VERSION = "placement 1.39"


@dataclass(frozen=True, slots=True)
class Target:
    """A Placement server on the loopback. ``prefix``: its URL path prefix, "" for OpenStack's."""

    name: str
    port: int
    prefix: str = ""
    process_id: int = 0

    @property
    def is_peer(self) -> bool:
        return not self.prefix

    def cpu_s(self) -> float:
        """Return the CPU time used by the server's processes, without its database. Units: seconds."""
        process = psutil.Process(self.process_id)
        everyone = [process, *process.children(recursive=True)]
        return sum(times.user + times.system for times in (one.cpu_times() for one in everyone))

    def connect(self, timeout_s: float = 900.0) -> "Connection":
        return Connection(self, timeout_s)

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Encode an HTTP request."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
        head = (
            f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Auth-Token: admin\r\n"
            "X-Roles: admin,service\r\n"
            f"OpenStack-API-Version: {_VERSION}\r\nAccept: application/json\r\n{kind}\r\n"
        )
        return head.encode() + data


class Connection:
    """A persistent HTTP connection on a raw socket. A general HTTP client would use as much CPU as the server does."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self._target.port), self._timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def receive(self) -> tuple[int, bytes]:
        """Read the next reply; return its status and body."""
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            self._more(received)
        head = bytes(received[:end]).lower()
        status = int(head.split(None, 2)[1])
        length = 0
        if b"\r\ncontent-length:" in head:
            length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n", 1)[0])
        body = bytearray(length)
        have = len(received) - end - 4
        body[:have] = received[end + 4 :]
        view = memoryview(body)
        while have < length:
            count = self.socket.recv_into(view[have:])
            if not count:
                raise ConnectionError(f"{self._target.name} closed the connection")
            have += count
        return status, bytes(body)

    def ask(self, request: bytes, *expected: int) -> tuple[float, bytes]:
        """Send a request; return the latency in seconds and the body. ``expected``: valid statuses, 200 if empty.

        Raises: SystemExit for another status.
        """
        readable = select.poll()
        readable.register(self.socket, select.POLLIN)
        if readable.poll(0):  # the server closed the idle connection
            self.close()
            self._open()
        started = time.perf_counter()
        self.send(request)
        status, body = self.receive()
        taken = time.perf_counter() - started
        if status not in (expected or (200,)):
            raise SystemExit(f"{self._target.name}: unexpected status {status}: {body[:500]!r}")
        return taken, body

    def close(self) -> None:
        self.socket.close()

    def _more(self, received: bytearray) -> None:
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError(f"{self._target.name} closed the connection")
        received += chunk


def drive(target: Target, requests: Iterator[bytes], clients: int, seconds: float) -> tuple[float, list[float]]:
    """Keep ``clients`` connections busy for ``seconds``; return requests per second and all latencies in seconds."""
    chosen = selectors.DefaultSelector()
    sent: dict[Connection, float] = {}
    taken: list[float] = []
    started = time.perf_counter()
    for _ in range(clients):
        connection = target.connect()
        chosen.register(connection.socket, selectors.EVENT_READ, connection)
        sent[connection] = time.perf_counter()
        connection.send(next(requests))
    while sent:
        for key, _ in chosen.select():
            connection = key.data
            status, body = connection.receive()
            now = time.perf_counter()
            taken.append(now - sent[connection])
            if status not in {200, 204}:
                raise SystemExit(f"{target.name}: unexpected status {status}: {body[:500]!r}")
            if now - started < seconds:
                sent[connection] = now
                connection.send(next(requests))
            else:
                chosen.unregister(connection.socket)
                connection.close()
                del sent[connection]
    return len(taken) / (time.perf_counter() - started), taken


@contextmanager
def ours(
    name: str,
    folder: Path,
    server: DatabaseServer | None,
    providers: Sequence[Provider],
    *,
    checkout: Path | None = None,
    granian: Path | None = None,
) -> Iterator[Target]:
    """Run Kilonova's Placement with these providers, on SQLite (``server`` None) or a new database of ``server``.

    ``checkout``: root of another checkout with a ``.venv``, whose code serves and creates the schema.
    ``granian``: granian program that serves this checkout instead of Kilonova's own HTTP server.
    """
    folder.mkdir()
    if server is None:
        url = f"sqlite:///{folder}/kilonova.db"
    else:
        server.create(f"kilonova_{folder.name}")
        url = server.url(f"kilonova_{folder.name}")
    port = free_port()
    config = folder / "kilonova.conf"
    config.write_text(
        f"[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{port}\n[database]\nconnection = {url}\n"
        "[placement]\nmax_allocation_candidates = -1\n"
    )
    program = [str(checkout / ".venv/bin/python") if checkout else sys.executable, "-m", "kilonova"]
    subprocess.run([*program, "db", "upgrade", "--config-file", str(config)], check=True, stdout=subprocess.DEVNULL)
    _fill(url, providers)
    command, environment = [*program, "api", "--config-file", str(config)], None
    if granian is not None:
        command = [
            str(granian),
            "--interface=wsgi",
            "--http=1",
            "--no-ws",
            "--blocking-threads=16",
            "--backpressure=256",
        ]
        command += [f"--port={port}", "kilonova.wsgi:application"]
        environment = {**os.environ, "PYTHONPATH": str(_SOURCE), "KILONOVA_CONFIG": str(config)}
    with _running(command, Target(name, port, "/placement"), folder / "log", environment) as target:
        yield target


def _fill(url: str, providers: Sequence[Provider]) -> None:
    """Insert providers into the reflected tables, whose schema may be that of another release."""
    engine = sa.create_engine(url)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.begin() as connection:
        fill(connection, metadata.tables, providers)
        connection.execute(sa.text("ANALYZE"))
    engine.dispose()


@contextmanager
def peer(
    folder: Path, server: DatabaseServer, providers: Sequence[Provider], *, most_candidates: int = -1
) -> Iterator[Target]:
    """Run OpenStack's Placement with these providers on gunicorn with two workers of four threads."""
    folder.mkdir()
    server.create(f"placement_{folder.name}")
    url = server.url(f"placement_{folder.name}")
    (folder / "placement.conf").write_text(
        f"[DEFAULT]\nlog_file = {folder}/placement.log\n[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = {url.replace('+psycopg', '+psycopg2')}\n"
        f"[placement]\nmax_allocation_candidates = {most_candidates}\n"
        "allocation_candidates_generation_strategy = breadth-first\n"
    )
    programs = PEER_VENV / "bin"
    environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(folder)}
    sync = [programs / "placement-manage", "--config-file", folder / "placement.conf", "db", "sync"]
    subprocess.run(sync, check=True, env=environment, capture_output=True)
    port = free_port()
    serve = [programs / "gunicorn", "-w2", "-kgthread", "--threads=4", "--keep-alive=900", "--timeout=900"]
    command = [*map(str, serve), f"-b127.0.0.1:{port}", "placement.wsgi.api:application"]
    with _running(command, Target("placement 16", port), folder / "log", environment) as target:
        # The service stores the standard traits when it starts.
        _fill(url, providers)
        yield target


@contextmanager
def _running(
    command: Sequence[str], target: Target, log_file: Path, environment: dict[str, str] | None = None
) -> Iterator[Target]:
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    try:
        _wait(lambda: target.connect().ask(target.request("GET", "/")), process, log_file)
        yield replace(target, process_id=process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):  # a worker may be busy for minutes with one reply
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(ask: Callable[[], Any], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            ask()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start:\n{log.read_text()[-3000:]}") from None
            time.sleep(0.05)
        else:
            return
