# SPDX-License-Identifier: Apache-2.0
"""One process for each test process that has imported large modules, and from which commands are forked."""

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path

PROCESSES = multiprocessing.get_context("forkserver")
_FOLDER = Path(__file__).parents[1]
_modules: list[str] = []


def import_beforehand(*modules: str) -> None:
    """Have modules imported by the process, which is not running yet."""
    _modules.extend(modules)
    PROCESSES.set_forkserver_preload(_modules)


def ensure_running() -> None:
    """Start the process if it is not running. Its path has the folder of the tests."""
    own = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_FOLDER), *filter(None, [own])])
    try:
        forkserver.ensure_running()
    finally:
        if own is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = own
