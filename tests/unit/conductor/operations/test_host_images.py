# SPDX-License-Identifier: Apache-2.0
"""Refusals of hosts that are asked for their cached images."""

from collections.abc import Callable
from typing import Any

import pytest

from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.conductor.operations.host_images import HostImages
from kilonova.errors import AgentTooOld, Unavailable, Unsupported
from kilonova.messaging.messages import AskCachedImages, QuestionRefused, RefusedBecause


class _Bus:
    def __init__(self, answers: Callable[[AskCachedImages], Any]) -> None:
        self._answers = answers
        self.questions: AgentQuestions | None = None

    def cast(self, host: str, message: Any) -> None:
        assert self.questions is not None
        self.questions.take(self._answers(message))


@pytest.mark.parametrize(
    ("because", "error", "says"),
    [
        (RefusedBecause.UNSUPPORTED, Unsupported, "Host node1 has no image cache"),
        (RefusedBecause.FAILED, Unavailable, "Host node1 cannot list its cached images: why"),
    ],
)
def test_what_a_host_does_not_say(because: RefusedBecause, error: type[Exception], says: str) -> None:
    bus = _Bus(lambda asked: QuestionRefused(asked.question, "node1", "", asked.asker, "why", because))
    bus.questions = AgentQuestions(bus, "c", lambda _host: False)  # type: ignore[arg-type]
    with pytest.raises(error, match=says):
        HostImages(bus.questions).list("node1")


@pytest.mark.parametrize(("error", "says"), [(AgentTooOld, "older release"), (Unavailable, "cannot be reached")])
def test_an_agent_that_cannot_be_asked(error: type[Exception], says: str) -> None:
    def fail(_asked: AskCachedImages) -> None:
        raise error("?")

    bus = _Bus(fail)
    bus.questions = AgentQuestions(bus, "c", lambda _host: False)  # type: ignore[arg-type]
    with pytest.raises((Unsupported, Unavailable), match=f"host node1.*{says}"):
        HostImages(bus.questions).list("node1")
