# SPDX-License-Identifier: Apache-2.0
"""API microversions, which compare as pairs of numbers, and the parser of the header that requests a microversion."""

import re
from typing import NamedTuple

_PATTERN = re.compile(r"([1-9][0-9]*)\.([1-9][0-9]*|0)")


class Version(NamedTuple):
    """A microversion as (major, minor); 2.10 comes after 2.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse ``X.Y``. Raises: ValueError."""
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise ValueError(text)
        return cls(int(found[1]), int(found[2]))


def requested_version(header: str | None, service: str) -> str | None:
    """Return the microversion that an ``OpenStack-API-Version`` header requests for ``service``, or None.

    One header may name several services, separated by commas.
    """
    for entry in (header or "").split(","):
        words = entry.split()
        if len(words) == 2 and words[0].lower() == service:
            return words[1]
    return None
