# SPDX-License-Identifier: Apache-2.0
"""The states in which servers were last seen, by which a change is recognised."""

from dataclasses import replace
from datetime import datetime

import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from kilonova.notifications import workflow_watch
from kilonova.notifications.workflow_watch import Memory

SERVER = Instance(1, "a", "vm", "p", "u", VmState.ACTIVE, Flavor("1", "m1.tiny", 1, 512, 1), host="node1")


def test_a_server_is_remembered_until_it_is_deleted_and_has_left_its_host() -> None:
    memory = Memory()
    assert memory.exchange(SERVER) is None
    stopped = replace(SERVER, vm_state=VmState.STOPPED)
    assert memory.exchange(stopped) == SERVER
    deleting = replace(stopped, deleted_at=datetime.fromisoformat("2026-05-01T12:00"))
    assert memory.exchange(deleting) == stopped
    gone = replace(deleting, host=None)
    assert memory.exchange(gone) == deleting
    assert memory.exchange(gone) is None


def test_the_server_seen_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_watch, "_REMEMBERED", 2)
    memory = Memory()
    servers = [replace(SERVER, uuid=uuid) for uuid in "abc"]
    memory.exchange(servers[0])
    memory.exchange(servers[1])
    memory.exchange(servers[0])
    memory.exchange(servers[2])
    assert memory.exchange(servers[0]) is not None
    assert memory.exchange(servers[1]) is None
