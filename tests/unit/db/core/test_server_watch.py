# SPDX-License-Identifier: Apache-2.0
"""A database server that does not answer is given up until it answers the one who asks it all the time."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kilonova.db.core.server_watch import ServerWatch
from kilonova.errors import Unavailable
from support.waiting import wait_until

TIMEOUT_S = 0.05


class Server:
    """Answers each question at once, or lets whoever asks wait for as long as he waits at most."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0

    def connect(self) -> Any:
        return self

    def cursor(self) -> Any:
        return self

    def execute(self, _question: str) -> None:
        self.asked += 1
        if not self.answers.is_set():
            time.sleep(TIMEOUT_S)
            raise TimeoutError("timed out")

    def fetchone(self) -> tuple[int]:
        return (1,)

    def rollback(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def used() -> Iterator[socket.socket]:
    """A connection that somebody uses."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


@pytest.fixture
def watch(server: Server, used: socket.socket) -> Iterator[ServerWatch]:
    watch = ServerWatch(server.connect, TIMEOUT_S)
    watch.connected(used)
    yield watch
    watch.close()


def test_nobody_waits_for_a_server_that_does_not_answer(
    watch: ServerWatch, server: Server, used: socket.socket
) -> None:
    watch.require_answers()
    server.answers.clear()
    wait_until(lambda: watch.is_silent, "that it is given up")
    assert used.recv(1) == b"", "whoever waits learns of it"
    with pytest.raises(Unavailable):
        watch.require_answers()
    server.answers.set()
    watch.wait(5.0)
    watch.require_answers()


def test_an_answer_of_before_that_is_told_late_does_not_take_it_up_again(watch: ServerWatch, server: Server) -> None:
    server.answers.clear()
    wait_until(lambda: watch.is_silent, "that it is given up")
    watch.heard()
    assert watch.is_silent
    asked = server.asked
    wait_until(lambda: server.asked > asked, "the next question")
    assert watch.is_silent


def test_a_server_that_answers_others_is_not_given_up(watch: ServerWatch, server: Server) -> None:
    server.answers.clear()
    ends = time.monotonic() + 6 * TIMEOUT_S
    while time.monotonic() < ends:
        watch.heard()
        assert not watch.is_silent
