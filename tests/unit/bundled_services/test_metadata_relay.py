# SPDX-License-Identifier: Apache-2.0
"""Requests of guests for metadata, forwarded to a stand-in for the agent of the host."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.bundled_services.metadata_relay import MOST_POSTED, HostAgent, Relay
from kilonova.server.limits import Limits
from kilonova.server.listening import listen_locally
from kilonova.server.server import Server

ADDRESS, MAC = "10.1.0.9", "fa:16:3e:00:00:01"
Seen = list[dict[str, Any]]


class StandIn:
    """Agent of a host. ``seen``: what it was asked; ``status``: of its answers."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.status = "200 OK"
        self.seen: Seen = []
        self.server = Server(self._answer, listen_locally(self.path, "the socket"), Limits(stop_s=0.1), 1)
        self.server.start()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.seen.append({**environ, "body": environ["wsgi.input"].read()})
        start_response(self.status, [("Content-Type", "text/x"), ("Retry-After", "1"), ("Content-Length", "2")])
        return [b"ok"]


@pytest.fixture
def agent(socket_folder: Path) -> Iterator[StandIn]:
    made = StandIn(socket_folder / "agent.sock")
    yield made
    made.server.stop()


def ask(
    path: str, socket: str, address: str = ADDRESS, method: str = "GET", sent: bytes = b"", **headers: str
) -> tuple[str, dict[str, str], bytes]:
    answered: list[Any] = []
    relay = Relay(HostAgent(socket), "net", lambda asked: MAC if asked == ADDRESS else "")
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": address, "wsgi.input": io.BytesIO(sent)}
    body = relay({**environ, **headers}, lambda *answer: answered.append(answer))
    return answered[0][0], dict(answered[0][1]), b"".join(body)


def test_the_agent_is_told_network_address_and_mac(agent: StandIn) -> None:
    status, headers, body = ask("/latest/meta-data/\u00fc x", agent.path)
    assert (status, headers["Content-Type"], body) == ("200 OK", "text/x", b"ok")
    (seen,) = agent.seen
    assert seen["PATH_INFO"] == "/latest/meta-data/\u00fc x"
    guest = {"NETWORK": "net", "ADDRESS": ADDRESS, "MAC": MAC}
    assert {name: seen[f"HTTP_X_KILONOVA_{name}"] for name in guest} == guest
    assert ask("/latest", agent.path, method="HEAD")[0::2] == ("200 OK", b"")


def test_no_header_of_the_guest_is_forwarded(agent: StandIn) -> None:
    names = ("X_KILONOVA_NETWORK", "X_KILONOVA_ADDRESS", "X_KILONOVA_MAC", "X_INSTANCE_ID", "X_TENANT_ID")
    forged = {f"HTTP_{name}": "forged" for name in (*names, "X_FORWARDED_FOR", "X_INSTANCE_ID_SIGNATURE")}
    ask("/latest", agent.path, "10.1.0.10", **forged)
    (seen,) = agent.seen
    assert "forged" not in seen.values()
    assert "HTTP_X_KILONOVA_MAC" not in seen


def test_a_password_is_forwarded_and_nothing_longer(agent: StandIn) -> None:
    ask("/openstack/latest/password", agent.path, method="POST", sent=b"abc=")
    ask("/openstack/latest/password", agent.path, method="POST", sent=b"x" * (2 * MOST_POSTED))
    assert [(seen["REQUEST_METHOD"], len(seen["body"])) for seen in agent.seen] == [("POST", 4), ("POST", MOST_POSTED)]
    assert ask("/latest", agent.path, method="PUT")[0] == "405 Method Not Allowed"
    assert len(agent.seen) == 2


def test_a_zone_is_no_part_of_an_address(agent: StandIn) -> None:
    ask("/latest", agent.path, "fe80::1%guests0")
    assert agent.seen[0]["HTTP_X_KILONOVA_ADDRESS"] == "fe80::1"


def test_that_a_guest_has_to_wait_is_passed_on(agent: StandIn) -> None:
    agent.status = "429 Too Many Requests"
    status, headers, _ = ask("/latest", agent.path)
    assert (status, headers["Retry-After"]) == ("429 Too Many Requests", "1")


def test_an_agent_that_is_away_is_a_503(tmp_path: Path) -> None:
    status, headers, _ = ask("/latest", str(tmp_path / "none"))
    assert (status, headers["Retry-After"]) == ("503 Service Unavailable", "1")
