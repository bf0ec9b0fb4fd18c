# SPDX-License-Identifier: Apache-2.0
"""Acknowledging deliveries in as few words as possible, in whatever order they are dealt with."""

from collections.abc import Iterable
from typing import Any


class Acknowledgements:
    """The deliveries of one connection that are not acknowledged."""

    def __init__(self) -> None:
        #: In the order in which they came, which is that of their tags.
        self._open: dict[int, None] = {}
        self._newest = 0

    def delivered(self, tag: int) -> None:
        self._open[tag] = None
        self._newest = tag

    def missed(self) -> int:
        """Return the tag of a delivery that could not be read: the broker counts them."""
        self.delivered(self._newest + 1)
        return self._newest

    def acknowledge(self, channel: Any, tags: Iterable[int]) -> None:
        """Tell the broker: all up to the first that is still open at once, the others one by one."""
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
