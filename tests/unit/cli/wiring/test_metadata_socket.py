# SPDX-License-Identifier: Apache-2.0
"""The socket at which an agent answers the metadata service of its host."""

import http.client
import stat
from pathlib import Path

import pytest

from kilonova.bundled_services.metadata_relay import HostAgent
from kilonova.cli.wiring.metadata_socket import metadata_parts
from kilonova.config.metadata import MetadataSettings
from kilonova.errors import Unavailable
from kilonova.guest_metadata import files_of
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import AskMetadata, GuestMetadata
from support.drives import DRIVE, GUEST

ASKED = {"X-Kilonova-Network": "net", "X-Kilonova-Address": "10.1.0.9"}


def test_without_a_socket_an_agent_answers_nothing() -> None:
    assert metadata_parts(MetadataSettings(), "node1", LocalBus()) == ()


def test_the_service_of_the_host_gets_answers_over_the_socket(socket_folder: Path) -> None:
    path, bus = socket_folder / "agent.sock", LocalBus()
    asked: list[object] = []

    def answer(question: object, _: object) -> GuestMetadata:
        asked.append(question)
        return GuestMetadata.of(files_of(GUEST, DRIVE))

    bus.serve_conductor(lambda _: None, answer)
    (part,) = metadata_parts(MetadataSettings(socket=path), "node1", bus)
    path.touch()  # left by a process that was killed
    part.start()
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        status, headers, body = HostAgent(str(path)).ask("GET", "/latest/meta-data/hostname", b"", ASKED)
        assert (status, body) == (200, b"web.example.org")
        assert headers == [("Content-Type", "text/plain; charset=UTF-8")]
        assert HostAgent(str(path)).ask("GET", "/", b"", {})[0] == 400
        assert asked == [AskMetadata("node1", "net", "10.1.0.9")]
    finally:
        part.stop()
    with pytest.raises((OSError, http.client.HTTPException)):
        HostAgent(str(path)).ask("GET", "/", b"", ASKED)


def test_a_folder_that_does_not_exist_is_named(socket_folder: Path) -> None:
    (part,) = metadata_parts(MetadataSettings(socket=socket_folder / "none" / "agent.sock"), "node1", LocalBus())
    with pytest.raises(Unavailable, match=r"metadata_socket: .*none/agent.sock cannot be used: No such file"):
        part.start()
