# SPDX-License-Identifier: Apache-2.0
"""Console output, console access and diagnostics of guests, queried from their hosts.

A user receives a console token. The console proxy exchanges the token for the address of the console (ADR 30).
"""

import re
import uuid
from datetime import timedelta

from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.db import console_tokens
from kilonova.db.console_tokens import ConsoleToken
from kilonova.db.database import Database
from kilonova.errors import Conflict, DriverError, Unavailable, Unsupported
from kilonova.messaging.messages import (
    AskConsoleAddress,
    AskConsoleOutput,
    AskDiagnostics,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    GuestAnswer,
    GuestQuestion,
    QuestionRefused,
    RefusedBecause,
)
from kilonova.model.console import ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.instance import Instance

#: Control characters that are removed from console output, because a terminal would execute them: all except tab and
#: line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Maximum length of console output in characters. A longer answer comes from a faulty agent; only its end is used.
_MOST = 100 * 1024


class Consoles:
    """Operations that query the host of a server about its guest."""

    def __init__(self, questions: AgentQuestions, database: Database) -> None:
        self._questions = questions
        self._database = database

    def output(self, instance: Instance, lines: int | None) -> str:
        """Return a server's console output: the last ``lines`` lines, or the whole log if ``lines`` is None.

        Raises: Conflict if the server has no guest; Unsupported; Unavailable if its host does not answer.
        """
        answer = self._ask(instance, AskConsoleOutput(instance.uuid, lines=lines), "console output")
        if not isinstance(answer, ConsoleOutput):
            raise _refusal(instance, answer, "console output")
        return _CONTROL.sub("", answer.output[-_MOST:])

    def open(self, instance: Instance, protocol: ConsoleProtocol, console_type: str, lasts_s: int) -> str:
        """Return a new token for the console of a server. ``lasts_s``: lifetime of the token in seconds.

        Raises: Conflict if the server has no running guest; Unsupported; Unavailable if its host does not answer.
        """
        what = f"{protocol.value} console"
        answer = self._ask(instance, AskConsoleAddress(instance.uuid, protocol=protocol), what)
        if not isinstance(answer, ConsoleAddress):
            raise _refusal(instance, answer, what)
        token, end = str(uuid.uuid4()), answer.end
        until = self._database.clock.now() + timedelta(seconds=lasts_s)
        leads_to = ConsoleToken(instance.uuid, answer.host, console_type, end, until)
        self._database.write(lambda tx: console_tokens.store(tx, token, leads_to))
        return token

    def forget_expired(self, _age: timedelta) -> int:
        """Delete a batch of expired tokens; return their number. Call this until it returns 0."""
        with self._database.read() as connection:
            hashes = console_tokens.expired(connection, self._database.clock.now())
        if hashes:
            self._database.write(lambda tx: console_tokens.forget(tx, hashes))
        return len(hashes)

    def diagnostics(self, instance: Instance) -> GuestDiagnostics:
        """Return the diagnostics of a server's guest.

        Raises: Conflict if the server has no running guest; Unsupported; Unavailable if its host does not answer.
        """
        answer = self._ask(instance, AskDiagnostics(instance.uuid), "diagnostics")
        if not isinstance(answer, Diagnostics):
            raise _refusal(instance, answer, "diagnostics")
        return answer.guest

    def _ask(self, instance: Instance, question: GuestQuestion, what: str) -> GuestAnswer:
        if instance.host is None:
            raise Conflict(f"Instance {instance.uuid} is not ready for {what}: it has no host.")
        return self._questions.ask(instance.host, question)


def _refusal(instance: Instance, answer: GuestAnswer, what: str) -> Conflict | DriverError | Unavailable:
    """Return the error for an answer that refuses the question or has an unexpected type."""
    match answer:
        case QuestionRefused(because=RefusedBecause.UNSUPPORTED):
            return Unsupported(f"The hypervisor of the instance has no {what}.")
        case QuestionRefused(because=RefusedBecause.NO_GUEST):
            return Conflict(f"Instance {instance.uuid} is not ready: its host has no guest of it.")
        case QuestionRefused(because=RefusedBecause.NOT_RUNNING):
            return Conflict(f"Instance {instance.uuid} is not ready for {what}: its guest does not run.")
        case QuestionRefused():
            return Unavailable(f"There is no {what} at present: {answer.error}")
    return Unavailable("The host of the instance has sent an unexpected answer.")
