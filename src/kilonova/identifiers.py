# SPDX-License-Identifier: Apache-2.0
"""Identifiers that need to be unique, not secret."""

import os
import random

#: The first digit of the fourth part says by its two highest bits that this is a UUID of RFC 9562.
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_random = random.Random()  # seeded from the system once; asking it for every id costs a system call each
os.register_at_fork(after_in_child=_random.seed)


def new_uuid() -> str:
    """Return a random (version 4) UUID as text."""
    digits = f"{_random.getrandbits(128):032x}"  # uuid.UUID would take four times as long, for every request
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"
