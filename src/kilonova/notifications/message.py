# SPDX-License-Identifier: Apache-2.0
"""Notification messages, formatted and ready to send."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kilonova.model.requester import Requester
from kilonova.records import dataclass


class Format(StrEnum):
    """Message format; each format has its own topics."""

    UNVERSIONED = "unversioned"
    VERSIONED = "versioned"


class Phase(StrEnum):
    """Phase of an operation: the last part of the event type, as in ``instance.create.start``."""

    START = "start"
    END = "end"
    ERROR = "error"
    PROGRESS = "progress"


class Source(StrEnum):
    """Nova service that a notification names as its publisher."""

    API = "nova-api"
    COMPUTE = "nova-compute"
    CONDUCTOR = "nova-conductor"
    SCHEDULER = "nova-scheduler"


@dataclass(frozen=True, slots=True)
class Message:
    """One notification.

    ``publisher``: the publisher_id. ``is_error``: whether the message is sent with priority ERROR. ``payload``:
    JSON-compatible values. ``who``: the requester, or None if the event has none.
    """

    format: Format
    publisher: str
    event_type: str
    payload: Mapping[str, Any]
    is_error: bool = False
    who: Requester | None = None
