# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.cloud import AgentCloud
from support.broker import Broker


@pytest.fixture
def agent_cloud(database_url: str, broker: Broker, tmp_path: Path) -> Iterator[Callable[..., AgentCloud]]:
    """Starts a control process and agent processes with the hosts that are named."""
    made: list[AgentCloud] = []

    def start(*agents: tuple[str, ...], **options: Any) -> AgentCloud:
        made.append(AgentCloud(tmp_path, database_url, broker, agents, **options))
        return made[-1].start()

    yield start
    for cloud in made:
        cloud.stop()
