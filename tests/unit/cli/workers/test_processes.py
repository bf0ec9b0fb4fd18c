# SPDX-License-Identifier: Apache-2.0
"""Real processes: a program that answers with the number and pid of the worker, without a control process."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from support.waiting import wait_until

_PROGRAM = """
import logging, os, sys, time
from kilonova.cli.workers.processes import run_workers
from kilonova.server.limits import Limits
from kilonova.server.listening import listen_together
from kilonova.server.server import Server
from kilonova.server.serving import serve_until_told


def say(text):
    os.write(1, f"{text}\\n".encode())  # in one piece, since several processes share the pipe

logging.basicConfig(level=logging.INFO, format="%(processName)s: %(message)s")
listeners = listen_together("127.0.0.1", 0, "test", 2)
say(listeners[0].getsockname()[1])
worker = run_workers(listeners, lambda: say("parent hung up"))
if isinstance(worker, int):
    say("parent ends")
    sys.exit(worker)
number = worker.identity.number
delay, _, status = os.environ.get(f"WORKER{number}", "0:").partition(":")
predecessors = len(worker.identity.predecessors)
if predecessors or number == 2:
    time.sleep(float(delay))
if status:
    sys.exit(int(status))

def application(environ, start_response):
    start_response("200 OK", [])
    return [f"{number} {os.getpid()} {predecessors}".encode()]

server = Server(application, worker.listener, Limits(), threads=2)
serve_until_told(worker.serving(server), lambda: say(f"{number} hung up"))
say(f"worker {number} ends")
"""


class Cloud:
    """The program with two workers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def ask(self, timeout_s: float = 30.0) -> tuple[int, int, int]:
        """Return number, pid and number of predecessors of the worker that answers a new connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            reply = b""
            while part := client.recv(4096):
                reply += part
        number, pid, predecessors = map(int, reply.rpartition(b"\r\n\r\n")[2].split())
        return number, pid, predecessors

    def workers(self, count: int = 2) -> dict[int, int]:
        """Wait until so many workers answer; return number → pid."""
        found: dict[int, int] = {}

        def all_answer() -> bool:
            number, pid, _ = self.ask()
            found[number] = pid
            return len(found) == count

        wait_until(all_answer, f"{count} workers to answer", at_most_s=30)
        return found

    def end(self) -> tuple[int, list[str], list[str]]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.splitlines(), err.splitlines()


Start = Callable[..., Cloud]


@contextmanager
def program(**environment: str) -> Iterator[Cloud]:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield Cloud(process)
        finally:
            process.kill()


def test_two_workers_share_a_port_and_end_with_their_parent() -> None:
    with program() as cloud:
        workers = cloud.workers()
        assert sorted(workers) == [1, 2]
        cloud.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        cloud.process.send_signal(signal.SIGTERM)
        status, out, err = cloud.end()
    assert status == 0
    assert sorted(out) == ["1 hung up", "2 hung up", "parent ends", "parent hung up", "worker 1 ends", "worker 2 ends"]
    assert out[-1] == "parent ends"
    assert len([line for line in err if "serves" in line]) == 2
    assert not any(psutil.pid_exists(pid) for pid in workers.values())


def test_ctrl_c_reaches_all_processes_of_a_terminal() -> None:
    with program() as cloud:
        workers = cloud.workers()
        for pid in (*workers.values(), cloud.process.pid):
            os.kill(pid, signal.SIGINT)
        status, out, _ = cloud.end()
    assert (status, sorted(out)) == (0, ["parent ends", "worker 1 ends", "worker 2 ends"])


def test_no_connection_is_refused_or_lost_while_a_worker_is_replaced() -> None:
    with program(WORKER1="2:") as cloud:
        workers = cloud.workers()
        os.kill(workers[1], signal.SIGKILL)
        wait_until(lambda: not _runs(workers[1]), "the worker to end")
        began, answers = time.monotonic(), []
        while time.monotonic() < began + 1.0:
            answers.append(cloud.ask(timeout_s=1.0))
        assert {number for number, _, _ in answers} == {2}
        assert cloud.workers()[1] != workers[1]
        assert {predecessors for number, _, predecessors in [cloud.ask() for _ in range(40)] if number == 1} == {1}
        cloud.process.terminate()
        _, _, err = cloud.end()
    assert f"MainProcess: Worker 1 (pid {workers[1]}) was killed by SIGKILL; starting another one in 0 s" in err


def test_connections_that_a_killed_worker_had_not_accepted_are_answered_by_the_other() -> None:
    with program(WORKER1="30:") as cloud:
        workers = cloud.workers()
        os.kill(workers[1], signal.SIGSTOP)
        with ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(cloud.ask) for _ in range(40)]
            time.sleep(0.5)
            waiting = [future for future in asked if not future.done()]
            assert waiting
            os.kill(workers[1], signal.SIGKILL)
            assert {future.result(20)[0] for future in waiting} == {2}


def test_connections_wait_while_no_worker_serves() -> None:
    with program(WORKER1="1:", WORKER2="1:") as cloud:
        workers = cloud.workers()
        for pid in workers.values():
            os.kill(pid, signal.SIGKILL)
        assert cloud.ask()[1] not in workers.values()
        cloud.process.terminate()
        assert cloud.end()[0] == 0


def test_workers_die_with_their_parent() -> None:
    with program() as cloud:
        workers = cloud.workers()
        cloud.process.kill()
        wait_until(lambda: not any(_runs(pid) for pid in workers.values()), "the workers to end")


def test_a_worker_that_cannot_start_ends_all_with_its_status() -> None:
    with program(WORKER2="0:2") as cloud:
        status, out, _ = cloud.end()
    assert status == 2
    assert out[-1] == "parent ends"


def test_a_signal_during_the_start_ends_all_at_once() -> None:
    with program(WORKER2="30:") as cloud:
        assert cloud.workers(1).keys() == {1}
        cloud.process.terminate()
        began = time.monotonic()
        assert cloud.end()[0] == 0
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_kills_at_any_moment_leave_no_process_and_no_descriptor() -> None:
    with program() as cloud:
        parent = psutil.Process(cloud.process.pid)
        cloud.workers()
        before = parent.num_fds()
        for pause_s in (0.0, 0.05, 0.2):
            os.kill(parent.children()[0].pid, signal.SIGKILL)
            time.sleep(pause_s)
        wait_until(lambda: len(parent.children()) == 2, "two workers", at_most_s=60)
        cloud.workers()
        assert parent.num_fds() == before
        cloud.process.terminate()
        assert cloud.end()[0] == 0


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
