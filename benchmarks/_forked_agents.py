# SPDX-License-Identifier: Apache-2.0
"""Agent processes forked from a process that has imported their code: ``kilonova compute`` without the import time.

This module imports only modules that an agent imports, because every forked agent inherits their memory.
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

for _name in ("cli.wiring.agent_process", "cli.commands.compute", "cli.wiring.log", "config.load", "server.serving"):
    importlib.import_module(f"kilonova.{_name}")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
gc.freeze()  # the garbage collector then does not write to the memory pages that forked agents share


def start_agent(config: str, log: str) -> BaseProcess:
    """Start an agent process with a configuration file; its output is appended to ``log``."""
    process = _CONTEXT.Process(target=_serve, args=(config, log), daemon=True)
    process.start()
    return process


def _end_with_parent() -> None:
    """Exit this agent when the benchmark process ends; the fork server would keep running as long as its agents run."""
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
