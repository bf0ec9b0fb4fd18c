# SPDX-License-Identifier: Apache-2.0
"""Answers of an agent to synchronous queries about guests (ADR 24)."""

import logging
import time
from collections.abc import Callable

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.virt.abilities import CanCacheImages, CanDiagnose, CanOpenConsoles, CanReadConsoles
from kilonova.errors import DriverError, GuestMissing, GuestNotRunning, Unsupported
from kilonova.messaging.messages import (
    AskCachedImages,
    AskConsoleAddress,
    AskConsoleOutput,
    AskDiagnostics,
    CachedImages,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    GuestAnswer,
    GuestQuestion,
    QuestionRefused,
    RefusedBecause,
)

LOG = logging.getLogger(__name__)


class Questions:
    """Answers queries for one host. A query is skipped once its timeout has passed."""

    def __init__(self, host: str, able: AbleDriver, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._able = able
        self._clock = clock

    def accept(self, question: GuestQuestion) -> Callable[[], GuestAnswer | None]:
        """Accept a query; return a function that computes the answer, or None once the query has timed out."""
        until = self._clock() + question.within_s

        def answer() -> GuestAnswer | None:
            if self._clock() > until:
                LOG.info("Host %s: a query about guest %s has timed out", self._host, question.instance_uuid)
                return None
            return self._answer(question)

        return answer

    def _answer(self, question: GuestQuestion) -> GuestAnswer:
        to = question.question, self._host, question.instance_uuid, question.asker
        try:
            return self._ask_driver(question)
        except DriverError as error:
            LOG.info("Host %s: %s", self._host, error.message)
            return QuestionRefused(*to, error.message, _because(error))
        except Exception:
            LOG.exception("Host %s: the driver failed on %r", self._host, question)
            return QuestionRefused(*to, "The hypervisor driver failed.")

    def _ask_driver(self, question: GuestQuestion) -> GuestAnswer:
        uuid, asker = question.instance_uuid, question.asker
        to = question.question, self._host, uuid
        match question:
            case AskConsoleOutput():
                return ConsoleOutput(*to, asker, self._able.need(CanReadConsoles).console_output(uuid, question.lines))
            case AskConsoleAddress():
                return ConsoleAddress(*to, self._able.need(CanOpenConsoles).console_end(uuid, question.protocol), asker)
            case AskDiagnostics():
                return Diagnostics(*to, self._able.need(CanDiagnose).diagnostics(uuid), asker)
            case AskCachedImages():
                return CachedImages(*to, asker, self._able.need(CanCacheImages).cached_images())


def _because(error: DriverError) -> RefusedBecause:
    if isinstance(error, Unsupported):
        return RefusedBecause.UNSUPPORTED
    if isinstance(error, GuestNotRunning):
        return RefusedBecause.NOT_RUNNING
    return RefusedBecause.NO_GUEST if isinstance(error, GuestMissing) else RefusedBecause.FAILED
