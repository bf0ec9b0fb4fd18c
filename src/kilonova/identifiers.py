# SPDX-License-Identifier: Apache-2.0
"""Generator of identifiers that are unique, but not secret."""

import os
import random

#: Random hex digit → first digit of the UUID's fourth group, whose two highest bits are the variant of RFC 9562.
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_random = random.Random()  # Random needs no system call for each identifier, unlike os.urandom
os.register_at_fork(after_in_child=_random.seed)


def new_uuid() -> str:
    """Return a random (version 4) UUID as text."""
    digits = f"{_random.getrandbits(128):032x}"  # uuid.uuid4() would take four times as long
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"
