# SPDX-License-Identifier: Apache-2.0
"""What a control process asks about a guest or a host while somebody waits for it, and what agents answer (ADR 24).

No question changes anything, so each may be lost or answered twice. ``question`` is what it and its answer have in
common, and ``asker`` the control process that the answer is for.
"""

from dataclasses import dataclass
from enum import StrEnum

from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics


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


@dataclass(frozen=True, slots=True)
class AskConsoleAddress:
    """Where is the console of a guest reached? Answered with :class:`ConsoleAddress`."""

    instance_uuid: str
    question: str = ""
    asker: str = ""
    within_s: float = 10.0
    protocol: ConsoleProtocol = ConsoleProtocol.VNC


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Answer to :class:`AskConsoleAddress`. ``end``: for proxies of consoles, and nobody else."""

    question: str
    host: str
    instance_uuid: str
    end: ConsoleEnd
    asker: str = ""


@dataclass(frozen=True, slots=True)
class AskDiagnostics:
    """How is a guest doing? Answered with :class:`Diagnostics`."""

    instance_uuid: str
    question: str = ""
    asker: str = ""
    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Answer to :class:`AskDiagnostics`."""

    question: str
    host: str
    instance_uuid: str
    guest: GuestDiagnostics
    asker: str = ""


@dataclass(frozen=True, slots=True)
class AskCachedImages:
    """Which images does a host keep? Answered with :class:`CachedImages`. ``instance_uuid``: none."""

    instance_uuid: str = ""
    question: str = ""
    asker: str = ""
    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class CachedImages:
    """Answer to :class:`AskCachedImages`."""

    question: str
    host: str
    instance_uuid: str = ""
    asker: str = ""
    images: tuple[CachedImage, ...] = ()


class RefusedBecause(StrEnum):
    """Why a question has no other answer. ``UNSUPPORTED``: the hypervisor never has one.

    ``NOT_RUNNING``: only questions that came with version 5 of the messages are refused for that.
    """

    FAILED = "failed"
    NO_GUEST = "no guest"
    NOT_RUNNING = "not running"
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


#: Wait for a hypervisor, behind no order, and are answered with a :data:`GuestAnswer` that somebody waits for.
GuestQuestion = AskConsoleOutput | AskConsoleAddress | AskDiagnostics | AskCachedImages
GuestAnswer = ConsoleOutput | ConsoleAddress | Diagnostics | CachedImages | QuestionRefused
