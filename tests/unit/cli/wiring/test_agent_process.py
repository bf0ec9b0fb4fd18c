# SPDX-License-Identifier: Apache-2.0
"""Agents of `kilonova compute`: their hosts and their default driver."""

from pathlib import Path

import pytest

from support.agents_of_conf import GUEST, Load

EXAMPLES = Path(__file__).parents[4] / "examples"


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
