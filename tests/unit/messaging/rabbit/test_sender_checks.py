# SPDX-License-Identifier: Apache-2.0
from typing import get_args

import pytest

from kilonova.messaging.messages import ConductorMessage, Question
from kilonova.messaging.rabbit.sender_checks import _hosts_of
from unit.messaging.test_codec import a_value_of


@pytest.mark.parametrize("kind", get_args(ConductorMessage | Question))
def test_every_message_of_an_agent_is_known_to_be_one(kind: type) -> None:
    assert list(_hosts_of(a_value_of(kind))), "it speaks for a host, which has to be the agent's"
