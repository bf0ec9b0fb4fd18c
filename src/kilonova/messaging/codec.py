# SPDX-License-Identifier: Apache-2.0
"""Messages as bytes: JSON with the name of the message and a version.

A field that the reader does not know is passed over, and one that the writer did not know gets its default, so that two
releases can talk. ``VERSION`` rises when a message comes to mean something else; what is newer is refused.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question

VERSION = 1
Message = AgentMessage | ConductorMessage | Question | Answer
MESSAGES: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Message)}


class _Envelope(msgspec.Struct):
    version: int
    message: str
    body: msgspec.Raw


def encode(message: Message) -> bytes:
    """Return a message as bytes."""
    body = msgspec.Raw(msgspec.json.encode(message, enc_hook=_plain))
    return msgspec.json.encode(_Envelope(VERSION, type(message).__name__, body))


def decode(data: bytes) -> Message:
    """Return the message in ``data``. Raises: msgspec.DecodeError, which says where and what is wrong."""
    envelope = msgspec.json.decode(data, type=_Envelope)
    if envelope.version > VERSION:
        raise msgspec.ValidationError(f"Version {envelope.version} is not understood, only those up to {VERSION}")
    kind = MESSAGES.get(envelope.message)
    if kind is None:
        raise msgspec.ValidationError(f"There is no message {envelope.message!r}")
    message: Any = msgspec.json.decode(envelope.body, type=kind)
    checked: Message = message
    return checked


def _plain(value: Any) -> Any:
    """Return what JSON has for a value that is not plain itself: mappings of all kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a message")
