# SPDX-License-Identifier: Apache-2.0
"""Queries that a control process sends about a guest or a host, and the agents' answers (ADR 24).

API requests wait for the answers.

Queries change nothing, so they may be lost or answered twice. ``question`` is the correlation id of a query and its
answer. ``asker`` is the control process that receives the answer.
"""

from enum import StrEnum

from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AskConsoleOutput:
    """Query of a guest's console log. Answered with :class:`ConsoleOutput`.

    ``lines``: number of lines to return from the end of the log; None returns the whole log. ``within_s``: seconds for
    which the caller waits.
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
    """Query of the address of a guest's console. Answered with :class:`ConsoleAddress`."""

    instance_uuid: str
    question: str = ""
    asker: str = ""
    within_s: float = 10.0
    protocol: ConsoleProtocol = ConsoleProtocol.VNC


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Answer to :class:`AskConsoleAddress`. ``end``: address of the console; only console proxies may see it."""

    question: str
    host: str
    instance_uuid: str
    end: ConsoleEnd
    asker: str = ""


@dataclass(frozen=True, slots=True)
class AskDiagnostics:
    """Query of a guest's diagnostics. Answered with :class:`Diagnostics`."""

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
    """Query of a host's image cache. Answered with :class:`CachedImages`. ``instance_uuid`` is empty."""

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
    """Reason for the refusal of a query. ``UNSUPPORTED``: the hypervisor driver never supports this query.

    ``NOT_RUNNING``: the guest is not running; used only for queries that were added with message version 5.
    """

    FAILED = "failed"
    NO_GUEST = "no guest"
    NOT_RUNNING = "not running"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class QuestionRefused:
    """Answer that refuses a query of any kind. ``error`` names no host, because the owner of the server may read it."""

    question: str
    host: str
    instance_uuid: str
    asker: str = ""
    error: str = ""
    because: RefusedBecause = RefusedBecause.FAILED


#: Queries for which an agent waits for the hypervisor, but not for queued orders. The answer is a :data:`GuestAnswer`.
GuestQuestion = AskConsoleOutput | AskConsoleAddress | AskDiagnostics | AskCachedImages
GuestAnswer = ConsoleOutput | ConsoleAddress | Diagnostics | CachedImages | QuestionRefused
