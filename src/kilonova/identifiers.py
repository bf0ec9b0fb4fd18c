# SPDX-License-Identifier: Apache-2.0
"""Identifiers that need to be unique, not secret."""

import os
import random
import uuid

_random = random.Random()  # seeded from the system once; asking it for every id costs a system call each
os.register_at_fork(after_in_child=_random.seed)


def new_uuid() -> str:
    """Return a random (version 4) UUID as text."""
    return str(uuid.UUID(int=_random.getrandbits(128), version=4))
