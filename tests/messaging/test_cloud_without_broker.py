# SPDX-License-Identifier: Apache-2.0
"""A whole control process while its broker is frozen: nothing waits but what needs an agent beyond it."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.core import Parts
from kilonova.identifiers import new_uuid
from kilonova.messaging.local import LocalBus
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus
from kilonova.messaging.routes import Route
from support.broker import CONTROL, Broker
from support.control import Control, start_control
from support.rabbit_ends import FixedRoutes, connected
from support.waiting import wait_until

#: How long anything may take here that does not wait for the broker.
_AT_ONCE_S = 5.0


@pytest.fixture
def cloud(broker: Broker, sqlite_template: Path, tmp_path: Path) -> Iterator[Control]:
    """node1 is reached over the broker, node2 in this process."""
    name, session = broker.new_agent(), new_uuid()
    routes = FixedRoutes({"node1": Route(name, session)}, {name})
    bus = RabbitConductorBus(broker.transport(CONTROL), new_uuid(), routes, LocalBus())
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    made = start_control(tmp_path, parts=Parts(bus=bus))
    made.add_flavor()
    bus.start()
    agent = RabbitAgentBus(name, broker.transport(name), new_uuid)
    agent.begin_session(session)
    for each in made.process.core.agents:
        if each.host == "node1":
            agent.serve_agent(each.host, each.accept)
    connected(bus)
    agent.start()
    connected(agent)
    yield made
    agent.close()
    made.process.close()


def status(cloud: Control, answer: Any) -> str:
    shown: str = cloud.admin.get(f"/servers/{answer.body['server']['id']}").body["server"]["status"]
    return shown


def test_apis_decisions_and_other_hosts_go_on(cloud: Control, broker: Broker) -> None:
    there, here = {"availability_zone": "nova:node1"}, {"availability_zone": "nova:node2"}
    before = cloud.boot(cloud.admin, **there)
    assert before["status"] == "ACTIVE"
    with broker.frozen():
        began = time.monotonic()
        far = [cloud.ask(cloud.admin, **there) for _ in range(3)]
        assert cloud.admin.post(f"/servers/{before['id']}/action", {"os-stop": None}).status == 202
        near = cloud.ask(cloud.admin, **here)
        wait_until(lambda: status(cloud, near) == "ACTIVE", "a server on another host is made", at_most_s=_AT_ONCE_S)
        doomed = cloud.ask(cloud.admin, **there)
        assert cloud.admin.delete(f"/servers/{doomed.body['server']['id']}").status == 204
        assert [status(cloud, each) for each in far] == ["BUILD"] * 3
        assert time.monotonic() - began < 2 * _AT_ONCE_S
    cloud.settle()
    assert [status(cloud, each) for each in far] == ["ACTIVE"] * 3
    assert cloud.admin.get(f"/servers/{before['id']}").body["server"]["status"] == "SHUTOFF"
    cloud.check()
