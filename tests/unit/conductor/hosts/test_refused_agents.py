# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import pytest

from kilonova.conductor.hosts.refused_agents import RefusedAgents
from kilonova.errors import AgentTooOld
from kilonova.messaging.bus import Sender
from kilonova.messaging.codec import OLDEST, VERSION


def test_an_agent_that_is_too_old_is_listed_until_it_was_upgraded() -> None:
    agents = RefusedAgents()
    for hosts in (["node2", "node1"], ["node2"]):
        with pytest.raises(AgentTooOld, match=f"Agent rack1 runs release 0.1, .* version {OLDEST - 1} is too old"):
            agents.require_recent(Sender("rack1", OLDEST - 1), "0.1", hosts)
    with pytest.raises(AgentTooOld, match="release unknown"):
        agents.require_recent(Sender("rack0", OLDEST - 1), "", ["node0"])
    first, second = agents.list_all()
    assert (first.agent, first.release, first.hosts) == ("rack0", None, ("node0",))
    assert (second.agent, second.release, second.hosts) == ("rack1", "0.1", ("node2",))
    assert {host: each.agent for host, each in agents.by_host().items()} == {"node0": "rack0", "node2": "rack1"}
    agents.require_recent(Sender("rack1", OLDEST), "0.2", ["node1", "node2"])
    agents.require_recent(Sender("rack0", VERSION), "0.3", ["node0"])
    assert agents.list_all() == ()


def test_an_agent_that_no_longer_registers_is_not_listed() -> None:
    now = [datetime(2026, 1, 1)]  # noqa: DTZ001 - naive UTC like all times here
    agents = RefusedAgents(lambda: now[0])
    with pytest.raises(AgentTooOld):
        agents.require_recent(Sender("rack1", OLDEST - 1), "0.1", ["node1"])
    now[0] += timedelta(minutes=9)
    assert [each.agent for each in agents.list_all()] == ["rack1"]
    now[0] += timedelta(minutes=1)
    assert (agents.list_all(), agents.by_host()) == ((), {})
