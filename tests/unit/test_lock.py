# SPDX-License-Identifier: Apache-2.0
"""Whatever is installed is known by name, version and hash."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_of_the_locks_has_a_hash_and_no_host_is_named() -> None:
    """After a change of one of these locks: ``make lock``."""
    locks = [(ROOT / f"requirements{name}.lock").read_text() for name in ("", "-libvirt", "-networks")]
    locked = [line for lock in locks for line in lock.splitlines() if "==" in line]
    text = (ROOT / "requirements.hashes").read_text()
    hashed = re.findall(r"^(\S+==\S+) \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert hashed == locked
    assert "://" not in text
