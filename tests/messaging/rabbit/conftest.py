# SPDX-License-Identifier: Apache-2.0
"""The two ends of the bus, connected to a real broker."""

from collections.abc import Iterator

import pytest

from support.broker import Broker
from support.rabbit_clients import Heard
from support.rabbit_ends import RabbitEnds


@pytest.fixture
def ends(broker: Broker) -> Iterator[RabbitEnds]:
    made = RabbitEnds(broker)
    made.serve_agent("node1", lambda _: None)
    made.routes.allowed = lambda agent, host: (agent, host) == (made.agent_name, "node1")
    yield made
    made.close()


@pytest.fixture
def heard(ends: RabbitEnds) -> Heard:
    made = Heard()
    ends.serve_conductor(made.handle, made.answer)
    return made
