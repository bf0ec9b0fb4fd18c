# SPDX-License-Identifier: Apache-2.0
"""API versions: numbers that compare as pairs, ranges, and the headers that choose them."""

import re
from collections.abc import Mapping
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


class Since:
    """A value that changes at some microversions: ``Since({(2, 1): a, (2, 55): b}).at(version)``."""

    def __init__(self, values: Mapping[tuple[int, int], object]) -> None:
        self._steps = sorted((Version(*version), value) for version, value in values.items())

    def at(self, version: Version) -> object | None:
        """Return the value in force at ``version``, None before the first."""
        found = None
        for start, value in self._steps:
            if version < start:
                break
            found = value
        return found
