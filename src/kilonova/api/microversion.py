# SPDX-License-Identifier: Apache-2.0
"""API versions: numbers that compare as pairs, and the header that chooses them."""

import re
from typing import NamedTuple

_PATTERN = re.compile(r"([1-9][0-9]*)\.([1-9][0-9]*|0)")


class Version(NamedTuple):
    """A microversion; 2.10 comes after 2.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read ``X.Y``. Raises: ValueError."""
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise ValueError(text)
        return cls(int(found[1]), int(found[2]))


def requested_version(header: str | None, service: str) -> str | None:
    """Return what ``OpenStack-API-Version`` asks of ``service``, or None. Entries of other services are ignored."""
    for entry in (header or "").split(","):
        words = entry.split()
        if len(words) == 2 and words[0].lower() == service:
            return words[1]
    return None
