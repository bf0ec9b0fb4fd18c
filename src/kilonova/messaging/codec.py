# SPDX-License-Identifier: Apache-2.0
"""The wire format of messages: JSON with the name of the message, its addressing and a version.

A reader ignores unknown fields and uses defaults for missing ones, so that two releases can communicate. ``VERSION``
rises with every addition; :func:`require_known` refuses to send a message that the reader's version does not have.
``NEEDS`` is the lowest version with which a reader interprets a message correctly. It rises only when the meaning of a
field changes, one release after all readers understand the new meaning.

Each version, and what was added with it:

====  ==================================================================
 1    messages without addressing
 2    host, session, the process that awaits the reply, and questions (ADR 20)
 3    the source of a guest's image data (ADR 23)
 4    actions on a guest that stays on its host, moves, rebuilds and snapshots of a guest, queries about a guest
      (ADR 24), and config drives (ADR 29)
 5    the address of a guest's console, and guest diagnostics (ADR 30)
 6    the format of an image, the image cache of a host, the rescue properties of an image, and the shutdown timeout of
      a guest before a rescue or a move
 7    ``CallOff``: cancels the order of a step that was interrupted before the order arrived (ADR 18)
 8    the abilities of hypervisor drivers, in the reports of agents
 9    network interfaces of guests, ``AttachInterface`` and ``DetachInterface``; metadata and passwords of guests; local
      disks that users request; what hosts know about their network cards
====  ==================================================================
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from kilonova import decoding
from kilonova.errors import AgentTooOld
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, HostsRegistered, Question
from kilonova.records import dataclass

VERSION = 9
NEEDS = 2
#: Message version of the previous release. Agents with a lower version are at least two releases old; control processes
#: refuse them.
OLDEST = 3
#: First version with config drives; an older agent would spawn the guest without its config drive.
_CONFIG_DRIVES = 4
#: First version with network interfaces; an older agent would create guests without their interfaces.
_INTERFACES = 9
#: First version with requested local disks; an older agent would create guests without these disks.
_REQUESTED_DISKS = 9
Message = AgentMessage | ConductorMessage | Question | Answer
#: Renamed message class → its name in the wire format, which is the former class name that other releases know.
_NAMES_OF_OTHERS: Mapping[type, str] = {HostsRegistered: "Orphans"}


def wire_name(kind: type) -> str:
    """Return the name of a message class in the wire format."""
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
#: Earlier version → the wire names of its messages. A message in none of these sets was added with ``VERSION``.
KNOWN: Mapping[int, frozenset[str]] = {
    2: _OF_VERSION_2,
    3: _OF_VERSION_2,
    4: _OF_VERSION_4,
    5: _OF_VERSION_5,
    6: _OF_VERSION_6,
    7: _OF_VERSION_7,
    8: _OF_VERSION_7,
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with its addressing.

    ``host``: the compute host whose agent is the recipient; "" in answers, and in messages to the conductor.
    ``session``: the session of the agent process that sends or receives the message.
    ``reply_to``: the control process that awaits the reply; "" if any control process may handle the reply.
    ``question``: correlation id of a question and its answer; "" for other messages.
    ``urgent``: whether the message overtakes messages that are not urgent.
    ``version``: message version of the sender.
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
    """Raise AgentTooOld if the agent of ``host``, with message version ``version``, cannot read ``message``."""
    name = wire_name(type(message))
    guest = getattr(message, "guest", None)
    if version < VERSION and name not in KNOWN.get(version, frozenset()):
        what = name
    elif version < _CONFIG_DRIVES and guest is not None and guest.config_drive is not None:
        what = "a guest with a config drive"
    elif version < _INTERFACES and guest is not None and guest.vifs:
        what = "a guest with network interfaces"
    elif version < _REQUESTED_DISKS and guest is not None and (guest.requested_ephemeral or guest.swap_bus):
        what = "a guest with requested local disks"
    else:
        return
    raise AgentTooOld(
        f"The agent of host {host} has message version {version}, and {what} needs a later one: "
        "upgrade the agent first."
    )


def encode(envelope: Envelope) -> bytes:
    """Serialise a message with its addressing."""
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
    """Parse a message. Raises: msgspec.DecodeError, with the place and the kind of the error."""
    try:
        return _decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"The message is not UTF-8: {error.reason}") from error


def _decode(data: bytes) -> Envelope:
    written = decoding.decode(data, _Version)
    needs = written.version if written.needs is None else written.needs
    if needs > VERSION:
        raise msgspec.ValidationError(
            f"Unsupported message version {written.version}; the latest supported version is {VERSION}"
        )
    wire = decoding.decode(data, _Wire)
    kind = MESSAGES.get(wire.message)
    if kind is None:
        raise msgspec.ValidationError(f"There is no message {wire.message!r}")
    message: Any = decoding.decode(wire.body, kind)
    return Envelope(message, wire.host, wire.session, wire.reply_to, wire.question, wire.urgent, wire.version)


def _plain(value: Any) -> Any:
    """Convert a mapping that msgspec cannot serialise itself to a dict. Raises: TypeError for values of other types."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a message")
