# SPDX-License-Identifier: Apache-2.0
"""The images that a host keeps, as its agent says."""

from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.errors import Unavailable, Unsupported
from kilonova.messaging.messages import AskCachedImages, CachedImages, QuestionRefused, RefusedBecause
from kilonova.model.cached_image import CachedImage


class HostImages:
    """Asks hosts. Whoever may ask is told which host it is about."""

    def __init__(self, questions: AgentQuestions) -> None:
        self._questions = questions

    def list(self, host: str) -> tuple[CachedImage, ...]:
        """Return what a host keeps, by name. Raises: Unsupported, where it keeps none; Unavailable."""
        try:
            answer = self._questions.ask(host, AskCachedImages())
        except Unsupported:
            raise Unsupported(f"The agent of host {host} runs an older release, which cannot answer this.") from None
        except Unavailable:
            raise Unavailable(f"The agent of host {host} cannot be reached, or does not answer in time.") from None
        match answer:
            case CachedImages():
                return tuple(sorted(answer.images, key=lambda image: image.name))
            case QuestionRefused(because=RefusedBecause.UNSUPPORTED):
                raise Unsupported(f"Host {host} keeps no images.")
            case QuestionRefused():
                raise Unavailable(f"Host {host} cannot say which images it keeps: {answer.error}")
        raise Unavailable(f"The agent of host {host} has answered something else.")
