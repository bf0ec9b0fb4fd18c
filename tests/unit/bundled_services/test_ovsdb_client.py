# SPDX-License-Identifier: Apache-2.0
"""Messages of the client of Open vSwitch's databases, with a stand-in for the server; tests/guests has a real one."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovsdb_client import OvsdbClient
from kilonova.errors import Unavailable


class Server:
    """Server that has its answers before they are asked for."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.client = OvsdbClient(OvnConnection(f"unix:{path}"), "OVN_Northbound")
        self._peer, _ = self._listener.accept()
        self._peer.settimeout(5)

    def say(self, *messages: Any) -> None:
        self._peer.sendall("".join(json.dumps(message) for message in messages).encode())

    def heard(self) -> list[dict[str, Any]]:
        text, found = self._peer.recv(65536).decode(), []
        while text:
            message, end = json.JSONDecoder().raw_decode(text)
            found.append(message)
            text = text[end:]
        return found

    def hang_up(self) -> None:
        self._peer.close()

    def close(self) -> None:
        for each in (self.client, self._peer, self._listener):
            each.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "db")
    yield made
    made.close()


def test_rows_are_read_as_python_values(server: Server) -> None:
    row = {
        "_uuid": ["uuid", "u1"],
        "ports": ["set", [["uuid", "p1"], ["uuid", "p2"]]],
        "ids": ["map", [["a", "1"]]],
        "name": "x",
    }
    server.say({"id": 0, "error": None, "result": [{"rows": [row]}]})
    assert server.client.read("Logical_Switch", ("name",)) == (
        {"_uuid": "u1", "ports": ("p1", "p2"), "ids": {"a": "1"}, "name": "x"},
    )
    (asked,) = server.heard()
    assert (asked["method"], asked["params"][0], asked["params"][1]["table"]) == (
        "transact",
        "OVN_Northbound",
        "Logical_Switch",
    )


def test_changes_and_probes_between_answers_are_handled(server: Server) -> None:
    update = {"id": None, "method": "update", "params": ["changes", {}]}
    probe = {"id": "echo", "method": "echo", "params": []}
    server.say(probe, update, {"id": 0, "error": None, "result": {}})
    server.client.watch({"Logical_Switch": ("name",)})
    assert [each.get("method") or each["id"] for each in server.heard()] == ["monitor", "echo"]
    server.say(probe)
    assert server.client.changed(), "the change came with the answer"
    server.say(probe)
    assert not server.client.changed()


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 0, "error": "unknown database", "result": None},
        {"id": 0, "error": None, "result": [{"error": "no table"}]},
    ],
)
def test_an_error_is_told(server: Server, answer: dict[str, Any]) -> None:
    server.say(answer)
    with pytest.raises(Unavailable):
        server.client.read("Logical_Switch", ("name",))


def test_a_server_that_is_gone(server: Server, tmp_path: Path) -> None:
    server.hang_up()
    with pytest.raises(Unavailable, match="is gone"):
        server.client.read("Logical_Switch", ("name",))
    with pytest.raises(Unavailable, match="cannot be reached"):
        OvsdbClient(OvnConnection(f"unix:{tmp_path}/none"), "x")
