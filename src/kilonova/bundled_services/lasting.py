# SPDX-License-Identifier: Apache-2.0
"""Suspends garbage collection while a service is imported and set up.

Nearly all objects that Keystone and Glance create during this time live as long as the process. Scanning these objects
again and again would take about a third of the import time, and would also slow down the exit.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def made_to_last() -> Iterator[None]:
    """Suspend garbage collection during the block; then collect once and exempt all objects from later collections."""
    gc.disable()
    try:
        yield
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()
