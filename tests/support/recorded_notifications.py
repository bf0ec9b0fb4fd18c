# SPDX-License-Identifier: Apache-2.0
"""Notification sink for tests: a list."""

from dataclasses import dataclass, field
from typing import Any

from kilonova.notifications.message import Format, Message


@dataclass
class RecordingSink:
    """Sink that records all messages in order."""

    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def hurry(self) -> None:
        """Do nothing: the sink has no queue."""

    def close(self) -> None:
        """Do nothing: recorded messages stay."""

    def of(self, wanted: Format, since: int = 0) -> list[Message]:
        """Return the messages of one format, without the first ``after`` messages."""
        return [each for each in self.messages[since:] if each.format is wanted]


def data(message: Message) -> dict[str, Any]:
    """Return the payload data of a versioned message."""
    said: dict[str, Any] = message.payload["nova_object.data"]
    return said
