# SPDX-License-Identifier: Apache-2.0
"""Messages as bytes: JSON with the name of the message, whom it is for, and a version.

A field that the reader does not know is passed over, and one that the writer did not know gets its default, so that two
releases can talk. ``VERSION`` rises with whatever is added, and nobody is sent a message that its version does not
know: :func:`require_known`. ``NEEDS`` is the least version that a reader must know to
act rightly on what is written; it rises only when something comes to mean something else, a release after every reader
has learnt it.

====  ==================================================================
 1    the message alone
 2    the host, the session, who awaits the answer, and questions (ADR 20)
 3    where a host gets the image of a guest from (ADR 23)
 4    the actions about one guest where it is, its moves, rebuilds and images, questions about it (ADR 24)
      and its config drive (ADR 29)
 5    the address of a guest's console, and how a guest is doing (ADR 30)
 6    the format of an image, the images that a host keeps, what an image to rescue from says of itself, and how long a
      guest may take to shut down before a rescue or a move
 7    that an order is called off whose step was interrupted while it was still on its way (ADR 18)
 8    the abilities of hypervisors, in the reports of their agents
====  ==================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from kilonova.errors import AgentTooOld
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, HostsRegistered, Question

VERSION = 8
NEEDS = 2
#: The version of the release before this one: agents that know less are two releases old, and refused.
OLDEST = 3
#: An earlier one would make a guest without the drive that it was asked for.
_CONFIG_DRIVES = 4
Message = AgentMessage | ConductorMessage | Question | Answer
#: What other releases call messages that are called something else here.
_NAMES_OF_OTHERS: Mapping[type, str] = {HostsRegistered: "Orphans"}


def wire_name(kind: type) -> str:
    """Return what a kind of message is called where it is written."""
    return _NAMES_OF_OTHERS.get(kind, kind.__name__)


MESSAGES: Mapping[str, type] = {wire_name(kind): kind for kind in get_args(Message)}
_OF_VERSION_2 = frozenset(
    {
        "AbandonMove", "AbortLiveMigration", "ActivateMigrated", "AskGuests", "AskStep", "ConfirmMove", "DestroyGuest",
        "FinishMove", "ForceCompleteLiveMigration", "GuestsFound", "Heartbeat", "HeartbeatAnswer", "HostsStarted",
        "LiveMigrate", "MigrationProgress", "MoveAway", "Orphans", "PrepareLiveMigration", "RebootGuest", "RemoveGuest",
        "ReturnHome", "SpawnGuest", "StartGuest", "StepReply", "StepStatus", "StopGuest",
    }
)  # fmt: skip
_OF_VERSION_4 = _OF_VERSION_2 | {
    "AskConsoleOutput", "AskPowerStates", "CacheImages", "CancelSnapshot", "ConsoleOutput", "DiscardSnapshot",
    "PauseGuest", "PowerStates", "PowerStatesAnswer", "QuestionRefused", "RebuildGuest", "RescueGuest",
    "ResumeGuest", "SetAdminPassword", "SnapshotGuest", "SuspendGuest", "TaskReached", "TriggerCrashDump",
    "UnpauseGuest", "UnrescueGuest", "UploadSnapshot",
}  # fmt: skip
_OF_VERSION_5 = _OF_VERSION_4 | {"AskConsoleAddress", "AskDiagnostics", "ConsoleAddress", "Diagnostics"}
_OF_VERSION_6 = _OF_VERSION_5 | {"AskCachedImages", "CachedImages"}
_OF_VERSION_7 = _OF_VERSION_6 | {"CallOff"}
#: Earlier version → the messages that it knows. Those that are in none of them came with ``VERSION``.
KNOWN: Mapping[int, frozenset[str]] = {
    2: _OF_VERSION_2,
    3: _OF_VERSION_2,
    4: _OF_VERSION_4,
    5: _OF_VERSION_5,
    6: _OF_VERSION_6,
    7: _OF_VERSION_7,
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message, and what the way to its reader needs to know.

    ``host``: which of its hosts an agent process is told something about.
    ``session``: the life of an agent process that the message is meant for.
    ``reply_to``: the control process that awaits the reply; any may take it when this is "".
    ``question``: what a question and its answer have in common, and no others; "" for what is neither.
    ``urgent``: it must not wait behind what is not.
    ``version``: of the messages that its writer knows.
    """

    message: Message
    host: str = ""
    session: str = ""
    reply_to: str = ""
    question: str = ""
    urgent: bool = False
    version: int = VERSION


class _Version(msgspec.Struct):
    version: int
    needs: int | None = None


class _Wire(msgspec.Struct, omit_defaults=True):
    version: int
    message: str
    body: msgspec.Raw
    needs: int | None = None
    host: str = ""
    session: str = ""
    reply_to: str = ""
    question: str = ""
    urgent: bool = False


def require_known(message: Message, version: int, host: str) -> None:
    """Raise AgentTooOld where the agent of ``host``, which knows ``version``, cannot read a message."""
    name = wire_name(type(message))
    guest = getattr(message, "guest", None)
    if version < VERSION and name not in KNOWN.get(version, frozenset()):
        what = name
    elif version < _CONFIG_DRIVES and guest is not None and guest.config_drive is not None:
        what = "a guest with a config drive"
    else:
        return
    raise AgentTooOld(
        f"The agent of host {host} knows version {version} of the messages, and {what} is of a later one: "
        "it has to be upgraded first."
    )


def encode(envelope: Envelope) -> bytes:
    """Return a message as bytes."""
    message = envelope.message
    wire = _Wire(
        VERSION,
        wire_name(type(message)),
        msgspec.Raw(msgspec.json.encode(message, enc_hook=_plain)),
        NEEDS,
        envelope.host,
        envelope.session,
        envelope.reply_to,
        envelope.question,
        envelope.urgent,
    )
    return msgspec.json.encode(wire)


def decode(data: bytes) -> Envelope:
    """Return what is in ``data``. Raises: msgspec.DecodeError, which says where and what is wrong."""
    try:
        return _decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"It is not UTF-8: {error.reason}") from error


def _decode(data: bytes) -> Envelope:
    written = msgspec.json.decode(data, type=_Version)
    needs = written.version if written.needs is None else written.needs
    if needs > VERSION:
        raise msgspec.ValidationError(
            f"Version {written.version} of the messages is not understood, only those up to {VERSION}"
        )
    wire = msgspec.json.decode(data, type=_Wire)
    kind = MESSAGES.get(wire.message)
    if kind is None:
        raise msgspec.ValidationError(f"There is no message {wire.message!r}")
    message: Any = msgspec.json.decode(wire.body, type=kind)
    return Envelope(message, wire.host, wire.session, wire.reply_to, wire.question, wire.urgent, wire.version)


def _plain(value: Any) -> Any:
    """Return what JSON has for a value that is not plain itself: mappings of all kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a message")
