# SPDX-License-Identifier: Apache-2.0
"""Parser and formatter for CPU sets such as ``0-3,^2,8``."""

import re
from collections.abc import Iterable

_PART = re.compile(r"(\^?)\s*(\d{1,6})\s*(?:-\s*(\d{1,6}))?")
_MOST = 4096


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a CPU set such as ``0-3,^2,8``; ``^`` excludes a CPU or a range of CPUs. Raises: ValueError."""
    chosen: set[int] = set()
    dropped: set[int] = set()
    for part in text.split(","):
        if not part.strip():
            continue
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"{text!r} is not a list of CPUs such as 0-3,^2")
        first, last = int(found[2]), int(found[3] or found[2])
        if last < first or last >= _MOST:
            raise ValueError(f"{part.strip()!r} in {text!r} is not a range of CPUs below {_MOST}")
        (dropped if found[1] else chosen).update(range(first, last + 1))
    return frozenset(chosen - dropped)


def cpus_text(cpus: Iterable[int]) -> str:
    """Return a set of CPUs as text that :func:`parse_cpus` can parse, such as ``0-1,3``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
