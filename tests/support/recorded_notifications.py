# SPDX-License-Identifier: Apache-2.0
"""A place where notifications go in tests: a list."""

from dataclasses import dataclass, field
from typing import Any

from kilonova.notifications.message import Format, Message


@dataclass
class RecordingSink:
    """Everything that was sent, in order."""

    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def hurry(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Keep what there is."""

    def of(self, wanted: Format, since: int = 0) -> list[Message]:
        """What was sent in one format, after so many messages."""
        return [each for each in self.messages[since:] if each.format is wanted]


def data(message: Message) -> dict[str, Any]:
    """What a versioned message says."""
    said: dict[str, Any] = message.payload["nova_object.data"]
    return said
