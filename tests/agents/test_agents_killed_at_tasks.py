# SPDX-License-Identifier: Apache-2.0
"""Agents that are killed while servers are at tasks which Nova repairs when its compute service starts.

What docs/guests.md says of these comes true: spec LIFECYCLE §2, rows 11, 12, 13, 15 and 16.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.cloud import AgentCloud
from kilonova.cli.main import main
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.model.instance import PowerState, VmState
from support.waiting import wait_until

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
#: Until they are killed, hosts never come to an end with anything.
_ENDLESS = "shutdown_delay_s: 600, start_delay_s: 600, live_migration_s: 600"
_SHUTDOWN, _PAUSED, _RUNNING = PowerState.SHUTDOWN, PowerState.PAUSED, PowerState.RUNNING
#: What is asked for → the task and the guest when the agents are killed.
_MET_AT = {
    "unpause": ("unpausing", _PAUSED),
    "os-stop": ("powering-off", _RUNNING),
    "os-start": ("powering-on", _SHUTDOWN),
    "resize": ("resize_migrating", _RUNNING),
    "os-migrateLive": ("migrating", _RUNNING),
}
#: The status and the guest afterwards, and whether the server is on another host.
_BECOMES = {
    "unpause": ("ACTIVE", _RUNNING, False),
    "os-stop": ("SHUTOFF", _SHUTDOWN, False),
    "os-start": ("ACTIVE", _RUNNING, False),
    "resize": ("VERIFY_RESIZE", _RUNNING, True),
    "os-migrateLive": ("ACTIVE", _RUNNING, True),
}
_ASKED = {"resize": {"flavorRef": "2"}, "os-migrateLive": {"host": None, "block_migration": "auto"}}


def test_what_is_under_way_when_agents_are_killed_goes_on(agent_cloud: Callable[..., AgentCloud]) -> None:
    cloud = agent_cloud(("east",), ("west",), hosts=f"vcpus: 16, memory_mib: 32768, {_ENDLESS}")
    servers = {name: cloud.control.ask(name=name).body["server"]["id"] for name in _MET_AT}
    cloud.settle()
    before = {name: cloud.show(uuid)["OS-EXT-SRV-ATTR:host"] for name, uuid in servers.items()}
    folder = cloud.folder / "hypervisors"
    stopped = servers["os-start"]
    assert main(["simulate", "stop", before["os-start"], stopped, "--state-dir", str(folder)]) == 0
    assert cloud.act(servers["unpause"], {"pause": None})["status"] == "PAUSED"
    cloud.until(stopped, "SHUTOFF")
    cloud.settle()

    for name in ("os-stop", "os-start", "resize", "os-migrateLive"):
        _ask(cloud, servers[name], name)
    for name in ("os-stop", "os-start", "resize", "os-migrateLive"):
        wait_until(
            lambda name=name: _met(cloud, folder, servers[name]) == _MET_AT[name], f"{name} is under way", at_most_s=60
        )  # type: ignore[misc]
    wait_until(
        lambda: cloud.control.admin.get(f"/servers/{servers['os-migrateLive']}/migrations").body["migrations"],
        "the guest is being copied",
        at_most_s=60,
    )
    for agent in cloud.agents:
        agent.freeze()  # so that an order that takes no time is not carried out before they are killed
    _ask(cloud, servers["unpause"], "unpause")
    for agent in cloud.agents:
        agent.kill()
    assert {name: _met(cloud, folder, uuid) for name, uuid in servers.items()} == _MET_AT

    scenario = cloud.folder / "hosts.yaml"
    scenario.write_text(scenario.read_text().replace(_ENDLESS, "start_delay_s: 0"))
    for agent in cloud.agents:
        agent.start()
    for name, (status, _, _) in _BECOMES.items():
        cloud.until(servers[name], status)
    cloud.settle()
    shown = {name: cloud.show(uuid) for name, uuid in servers.items()}
    assert {
        name: (server["status"], _guest(folder, server), server["OS-EXT-SRV-ATTR:host"] != before[name])
        for name, server in shown.items()
    } == _BECOMES
    assert {server["OS-EXT-STS:task_state"] for server in shown.values()} == {None}
    assert cloud.check()[servers["resize"]] == VmState.RESIZED


def _ask(cloud: AgentCloud, uuid: str, name: str) -> None:
    assert cloud.control.admin.post(f"/servers/{uuid}/action", {name: _ASKED.get(name)}).status == 202


def _met(cloud: AgentCloud, folder: Path, uuid: str) -> tuple[str | None, PowerState]:
    """The task that a server shows, and what its guest does."""
    server = cloud.show(uuid)
    return server["OS-EXT-STS:task_state"], _guest(folder, server)


def _guest(folder: Path, server: dict[str, Any]) -> PowerState:
    """What the host of a server has for it; the source of a resize has something for it as well."""
    host = server["OS-EXT-SRV-ATTR:host"]
    return GuestFile(host, folder / f"{host}.json").places[server["id"]].power_state
