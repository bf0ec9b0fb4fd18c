# SPDX-License-Identifier: Apache-2.0
"""Acknowledgement of deliveries with as few basic.ack frames as possible. Deliveries are handled in any order."""

from collections.abc import Iterable
from typing import Any


class Acknowledgements:
    """The unacknowledged deliveries of one connection."""

    def __init__(self) -> None:
        #: Tags of the unacknowledged deliveries, in ascending order.
        self._open: dict[int, None] = {}
        self._newest = 0

    def delivered(self, tag: int) -> None:
        self._open[tag] = None
        self._newest = tag

    def missed(self) -> int:
        """Record an unparsable delivery, and return its tag. The tag is known because the broker numbers deliveries."""
        self.delivered(self._newest + 1)
        return self._newest

    def acknowledge(self, channel: Any, tags: Iterable[int]) -> None:
        """Acknowledge deliveries.

        All deliveries before the first unhandled one get a single ack (``multiple``), each later delivery its own ack.
        """
        done = {tag for tag in tags if tag in self._open}
        together = 0
        for tag in self._open:
            if tag not in done:
                break
            together = tag
        for tag in done:
            del self._open[tag]
        if together:
            channel.basic_ack(together, multiple=True)
        for tag in sorted(tag for tag in done if tag > together):
            channel.basic_ack(tag)
