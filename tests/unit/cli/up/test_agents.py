# SPDX-License-Identifier: Apache-2.0
"""What ``kilonova up --agents`` decides before it starts anything; tests/e2e has whole clouds."""

from pathlib import Path

import pytest

from kilonova.cli.main import main
from kilonova.cli.up import agents
from kilonova.cli.up.agents import require_possible, share_out
from kilonova.errors import ConfigurationError


def test_hosts_are_shared_out_evenly_and_stay_together() -> None:
    hosts = [f"node{number}" for number in range(1, 9)]
    assert share_out(hosts, 3) == {
        "agent1": ("node1", "node2", "node3"),
        "agent2": ("node4", "node5", "node6"),
        "agent3": ("node7", "node8"),
    }
    assert share_out(hosts[:1], 1) == {"agent1": ("node1",)}


def test_without_rabbitmq_one_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents.rabbitmq, "_SERVER", tmp_path / "rabbitmq-server")
    assert main(["up", "--agents", "2", "--data", str(tmp_path / "cloud")]) == 2
    assert capsys.readouterr().err == (
        "kilonova: --agents needs RabbitMQ, which is not installed. "
        "On Debian and Ubuntu: apt-get install rabbitmq-server\n"
    )
    assert not (tmp_path / "cloud").exists()


def test_each_agent_needs_a_host_and_the_broker_is_its_own() -> None:
    require_possible(3, 3, {})
    require_possible(0, 0, {"DEFAULT": {"transport_url": "rabbit://a:b@c"}})
    with pytest.raises(ConfigurationError, match="--agents 4 exceeds the number of hosts"):
        require_possible(4, 3, {})
    with pytest.raises(ConfigurationError, match="remove transport_url from --config-file"):
        require_possible(1, 3, {"DEFAULT": {"transport_url": "rabbit://a:b@c"}})
