# SPDX-License-Identifier: Apache-2.0
"""Where the image service has several endpoints, one that is away is passed over, and nothing is made twice."""

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from keystoneauth1.exceptions import ConnectFailure
from keystoneauth1.session import Session

from kilonova.images.endpoints import Endpoints

#: Nobody listens there.
NOWHERE = "http://127.0.0.1:1"


class Service(ThreadingHTTPServer):
    """Answers everything with one status, and keeps what it was asked."""

    def __init__(self, status: int) -> None:
        self.status, self.asked = status, list[str]()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def _answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815  as the library calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def good() -> Iterator[Service]:
    yield from _served(200)


@pytest.fixture
def away() -> Iterator[Service]:
    yield from _served(503)


def _served(status: int) -> Iterator[Service]:
    service = Service(status)
    yield service
    service.shutdown()
    service.server_close()


def ask(endpoints: Endpoints, method: str = "GET") -> int:
    return int(endpoints.request("/v2/images", method, authenticated=False).status_code)


def test_one_that_is_away_is_passed_over_and_not_asked_again(
    good: Service, away: Service, caplog: pytest.LogCaptureFixture
) -> None:
    endpoints = Endpoints(Session(), [NOWHERE, away.url, f"{good.url}/"])
    with caplog.at_level(logging.WARNING):
        assert [ask(endpoints) for _ in range(3)] == [200] * 3
    assert (len(away.asked), good.asked) == (1, ["GET /v2/images"] * 3)
    assert [record.getMessage().count("does not answer at") for record in caplog.records] == [1, 1]


def test_what_makes_something_is_sent_once_and_the_next_time_elsewhere(good: Service, away: Service) -> None:
    endpoints = Endpoints(Session(), [away.url, good.url])
    assert (ask(endpoints, "POST"), good.asked) == (503, [])
    assert (ask(endpoints, "POST"), away.asked) == (200, ["POST /v2/images"])
    assert ask(endpoints, "DELETE") == 200


def test_a_refusal_is_an_answer(good: Service, away: Service) -> None:
    away.status = 404
    assert (ask(Endpoints(Session(), [away.url, good.url])), good.asked) == (404, [])


def test_when_all_are_away_the_last_failure_is_told(away: Service) -> None:
    assert ask(Endpoints(Session(), [NOWHERE, away.url])) == 503
    with pytest.raises(ConnectFailure):
        ask(Endpoints(Session(), [away.url, NOWHERE]))
    assert ask(Endpoints(Session(), [away.url])) == 503
