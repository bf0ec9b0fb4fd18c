# SPDX-License-Identifier: Apache-2.0
"""Decision lock that records every call of its holder into a module that can block.

A Python profile function sees every call of Python and C code while the lock is held. This finds blocking calls on any
call path, but is too slow for production.
"""

import gc
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import kilonova

_HOME = Path(kilonova.__file__).parent
#: Python files whose functions block on a database, a network or a thread, or submit work to a thread.
_WAITING_FILES = tuple(str(_HOME / "db" / name) for name in ("database.py", "pulse.py", "change_log.py"))
_WAITING_PACKAGES = (
    "sqlalchemy/", "psycopg/", "psycopg_pool/", "pymysql/", "requests/", "urllib3/", "concurrent/futures/",
    "/socket.py", "/subprocess.py", "/selectors.py", "/queue.py",
)  # fmt: skip
#: Modules and functions of C code that can block.
_WAITING_MODULES = ("_sqlite3", "sqlite3", "_socket", "socket", "select", "_queue", "_ssl", "psycopg_binary", "zlib")
_WAITING_FUNCTIONS = ("sleep", "start_new_thread", "start_joinable_thread", "fsync", "fdatasync")


class WatchedLock:
    """Re-entrant lock. ``offences``: each blocking call made under the lock → its stack.

    Garbage is not collected meanwhile: a collection may run in any thread, and calls the finalizers of other parts.
    """

    def __init__(self) -> None:
        self.offences: dict[str, str] = {}
        self.times_taken = 0
        self._lock = threading.RLock()
        self._depth = 0
        self._collected = False

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self.times_taken += 1
            self._collected = gc.isenabled()
            gc.disable()
            sys.setprofile(self._look)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            sys.setprofile(None)
            if self._collected:
                gc.enable()
        self._lock.release()

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file in _WAITING_FILES or any(part in file for part in _WAITING_PACKAGES):
                self._accuse(f"{frame.f_code.co_qualname} of {file}", frame)
        elif event == "c_call":
            owner = getattr(argument, "__self__", None)
            module = getattr(argument, "__module__", None) or type(owner).__module__
            if module.partition(".")[0] in _WAITING_MODULES or argument.__name__ in _WAITING_FUNCTIONS:
                self._accuse(f"{argument.__qualname__} of {module}", frame)

    def _accuse(self, what: str, frame: FrameType) -> None:
        self.offences.setdefault(what, "".join(traceback.format_stack(frame)[-8:]))
