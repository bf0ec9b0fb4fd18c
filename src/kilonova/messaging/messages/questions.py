# SPDX-License-Identifier: Apache-2.0
"""What a control process asks about a guest while somebody waits for it, and what agents answer (ADR 24).

No question changes anything, so each may be lost or answered twice. ``question`` is what it and its answer have in
common, and ``asker`` the control process that the answer is for.
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class AskConsoleOutput:
    """What has a guest written to its console? Answered with :class:`ConsoleOutput`.

    ``lines``: the last so many; None stands for all that is kept. ``within_s``: how long anybody waits for it.
    """

    instance_uuid: str
    question: str = ""
    asker: str = ""
    within_s: float = 10.0
    lines: int | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOutput:
    """Answer to :class:`AskConsoleOutput`."""

    question: str
    host: str
    instance_uuid: str
    asker: str = ""
    output: str = ""


class RefusedBecause(StrEnum):
    """Why a question has no other answer. ``UNSUPPORTED``: the hypervisor never has one."""

    FAILED = "failed"
    NO_GUEST = "no guest"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class QuestionRefused:
    """Answer to any question. ``error`` may be read by the owner of the server, so it names no host."""

    question: str
    host: str
    instance_uuid: str
    asker: str = ""
    error: str = ""
    because: RefusedBecause = RefusedBecause.FAILED
