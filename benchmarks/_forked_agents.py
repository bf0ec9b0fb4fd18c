# SPDX-License-Identifier: Apache-2.0
"""Agent processes, forked from one that has their code: each is ``kilonova compute``, without the time of its imports.

Nothing is imported here that an agent does not have, since every one of them would have it.
"""

import gc
import importlib
import multiprocessing
import os
import sys
import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from kilonova.cli.main import main

for _name in ("cli.agent_process", "cli.compute", "cli.log", "config.load", "server.serving"):
    importlib.import_module(f"kilonova.{_name}")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
gc.freeze()  # what is shared stays so


def start_agent(config: str, log: str) -> BaseProcess:
    """Start an agent process with its configuration file; what it writes is added to ``log``."""
    process = _CONTEXT.Process(target=_serve, args=(config, log), daemon=True)
    process.start()
    return process


def _end_with_parent() -> None:
    """End when the benchmark has, however that was; the process that was forked from stays while this one does."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _serve(config: str, log: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    sys.exit(main(["compute", "--config-file", config]))
