# SPDX-License-Identifier: Apache-2.0
"""What is sent: one message in one of the two formats."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kilonova.model.requester import Requester


class Format(StrEnum):
    """Consumers of one listen to other topics than those of the other."""

    UNVERSIONED = "unversioned"
    VERSIONED = "versioned"


class Phase(StrEnum):
    """Of what a notification tells."""

    START = "start"
    END = "end"
    ERROR = "error"
    PROGRESS = "progress"


class Source(StrEnum):
    """Which service Nova's consumers expect a notification from."""

    API = "nova-api"
    COMPUTE = "nova-compute"
    CONDUCTOR = "nova-conductor"
    SCHEDULER = "nova-scheduler"


@dataclass(frozen=True, slots=True)
class Message:
    """``publisher``: who says so. ``is_error``: it has another priority. ``payload``: what JSON can say.

    ``who``: asked for it; None for what nobody asked for.
    """

    format: Format
    publisher: str
    event_type: str
    payload: Mapping[str, Any]
    is_error: bool = False
    who: Requester | None = None
