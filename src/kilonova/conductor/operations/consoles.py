# SPDX-License-Identifier: Apache-2.0
"""What guests write to their consoles."""

import re

from kilonova.conductor.agent_questions import AgentQuestions
from kilonova.errors import Conflict, Unavailable, Unsupported
from kilonova.messaging.messages import AskConsoleOutput, ConsoleOutput, QuestionRefused, RefusedBecause
from kilonova.model.instance import Instance

#: Control characters but for tab and line feed: a terminal that shows a console would obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: No agent tells more of a console; one that does is not to be trusted.
_MOST = 100 * 1024


class Consoles:
    """Asks the hosts of servers."""

    def __init__(self, questions: AgentQuestions) -> None:
        self._questions = questions

    def output(self, instance: Instance, lines: int | None) -> str:
        """Return what a server's guest has written to its console, the last ``lines`` or all that is kept.

        Raises: Conflict, where it has no guest; Unsupported; Unavailable, where its host does not answer.
        """
        if instance.host is None:
            raise Conflict(f"Instance {instance.uuid} is not ready: it has no host.")
        answer = self._questions.ask(instance.host, AskConsoleOutput(instance.uuid, lines=lines))
        match answer:
            case ConsoleOutput():
                return _CONTROL.sub("", answer.output[-_MOST:])
            case QuestionRefused(because=RefusedBecause.UNSUPPORTED):
                raise Unsupported("The hypervisor of the instance keeps no console output.")
            case QuestionRefused(because=RefusedBecause.NO_GUEST):
                raise Conflict(f"Instance {instance.uuid} is not ready: its host has no guest of it.")
            case QuestionRefused():
                raise Unavailable(f"The console output cannot be had: {answer.error}")
