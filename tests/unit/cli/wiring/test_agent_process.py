# SPDX-License-Identifier: Apache-2.0
"""Agents of `kilonova compute`: their hosts and their default driver."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.cli.wiring.agent_process import agents_of
from kilonova.compute.agent import Agent
from kilonova.config.load import load_agent_settings
from kilonova.messaging.local import LocalBus
from kilonova.model.instance import GuestSpec

EXAMPLES = Path(__file__).parents[4] / "examples"


GUEST = GuestSpec(
    uuid="8a5b6c1c-0000-4000-8000-000000000000", name="vm", hostname="vm", vcpus=1, memory_mib=512, root_gib=1
)


Load = Callable[[str], tuple[Agent, ...]]


@pytest.fixture
def agents_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def load(text: str) -> tuple[Agent, ...]:
        (tmp_path / "agent.conf").write_text(f"[DEFAULT]\ninstances_path = {tmp_path / 'instances'}\n{text}")
        return agents_of(load_agent_settings([str(tmp_path / "agent.conf")]), LocalBus(), lambda: True)

    yield load
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_without_a_name_of_its_own_the_host_is_called_like_its_machine(agents_with: Load) -> None:
    import socket

    (agent,) = agents_with("compute_driver = audited_driver.AuditedDriver\n")
    assert agent.host == socket.gethostname()


@pytest.mark.parametrize("name", ["fake.FakeDriver", "nova.virt.fake.FakeDriver", ""])
def test_by_default_hosts_are_simulated_and_keep_their_guests_below_instances_path(
    agents_with: Load, tmp_path: Path, name: str
) -> None:
    agents = agents_with(f"compute_driver = {name}\n[fake]\nhosts = 2\n")
    assert [agent.host for agent in agents] == ["node1", "node2"]
    agents[0].driver.spawn(GUEST)
    assert (tmp_path / "instances" / "node1.json").exists()
