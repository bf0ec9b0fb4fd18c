# SPDX-License-Identifier: Apache-2.0
"""Suspends garbage collection while a process imports its modules and is set up.

Nearly all objects that are created during this time live as long as the process. Scanning these objects again and again
would take a sixth to a third of the time, and would also slow down the exit.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def made_to_last() -> Iterator[None]:
    """Suspend garbage collection during the block; then exempt all objects from later collections.

    There is no collection at the end: it would take a tenth of the start of Keystone, and finds next to nothing.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
