# SPDX-License-Identifier: Apache-2.0
"""Turn of a test module to use the external network, whose addresses only one cloud of a machine can have."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = Path(tempfile.gettempdir()) / "kilonova-tests-external-network.lock"


@contextmanager
def external_network() -> Iterator[None]:
    """Wait until no other test process uses the external network, and keep others from using it."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
