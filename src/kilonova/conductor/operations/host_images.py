# SPDX-License-Identifier: Apache-2.0
"""Images in the cache of a host, queried from its agent."""

from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.errors import Unavailable, Unsupported
from kilonova.messaging.messages import AskCachedImages, CachedImages, QuestionRefused, RefusedBecause
from kilonova.model.cached_image import CachedImage


class HostImages:
    """Query of a host's image cache. Only operators use it, so errors name the host."""

    def __init__(self, questions: AgentQuestions) -> None:
        self._questions = questions

    def list(self, host: str) -> tuple[CachedImage, ...]:
        """Return the cached images of a host, sorted by name.

        Raises: Unsupported if the host has no image cache or its agent is too old; Unavailable.
        """
        try:
            answer = self._questions.ask(host, AskCachedImages())
        except Unsupported:
            raise Unsupported(
                f"The agent of host {host} runs an older release, which cannot answer this query."
            ) from None
        except Unavailable:
            raise Unavailable(f"The agent of host {host} cannot be reached, or does not answer in time.") from None
        match answer:
            case CachedImages():
                return tuple(sorted(answer.images, key=lambda image: image.name))
            case QuestionRefused(because=RefusedBecause.UNSUPPORTED):
                raise Unsupported(f"Host {host} has no image cache.")
            case QuestionRefused():
                raise Unavailable(f"Host {host} cannot list its cached images: {answer.error}")
        raise Unavailable(f"The agent of host {host} has sent an unexpected answer.")
