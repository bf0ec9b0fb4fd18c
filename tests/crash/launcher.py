# SPDX-License-Identifier: Apache-2.0
"""Kilonova commands as processes forked from one that has imported everything, so that they start at once.

A forked command behaves like ``kilonova COMMAND``: it has its own session, log and threads, and can be killed, stopped
and continued. On ``SIGUSR1`` a control process also compares its mirror with the database.
"""

import contextlib
import gc
import json
import os
import select
import signal
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import kilonova.cli.commands.api
import kilonova.cli.commands.compute
import kilonova.cli.main
import kilonova.cli.scenarios.settings
import kilonova.cli.wiring.agent_process
import kilonova.cli.wiring.control
import kilonova.cli.wiring.http_server
import kilonova.messaging.rabbit.conductor_end
import kilonova.server.serving  # noqa: F401 - imported here for the forked children
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.cli.wiring.core import Core
from support.command_process import append_output, run_kilonova
from support.mirrors import assert_follows

#: Suffix of the file beside a control process's log that holds the result of its mirror check.
LOOKED_SUFFIX = ".mirror"


class Launcher:
    """Forks commands.

    Create it before any thread starts. Its commands end with it, and it ends with the calling thread.
    """

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answer, answered = os.pipe()
        gc.freeze()
        parent = os.getpid()
        if os.fork() == 0:
            os.close(self._ask)
            os.close(self._answer)
            die_with_parent(parent)
            _serve(asked, answered)
        os.close(asked)
        os.close(answered)

    def launch(self, arguments: Sequence[str], log: Path) -> int:
        """Fork a process that runs a command, and return its pid."""
        os.write(self._ask, json.dumps({"arguments": list(arguments), "log": str(log)}).encode() + b"\n")
        return int(os.read(self._answer, 32))


class Command:
    """Command that can be started repeatedly. ``starts``: number of starts."""

    def __init__(self, launcher: Launcher, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self.starts = 0
        self._launcher = launcher
        self._arguments = tuple(arguments)
        self._pid = 0
        self._watched: int | None = None

    def start(self) -> None:
        self._pid = self._launcher.launch(self._arguments, self.log)
        self._watched = os.pidfd_open(self._pid)
        self.starts += 1

    @property
    def is_running(self) -> bool:
        """True if the process exists, even if it is stopped."""
        return self._watched is not None and not _has_ended(self._watched, 0)

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for it. Without effect if it has ended."""
        self.signal(signal.SIGKILL)
        if self._watched is not None:
            _has_ended(self._watched, 30)
            os.close(self._watched)
            self._watched = None

    def signal(self, number: int) -> None:
        if self._watched is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watched, number)


def _has_ended(watched: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def _serve(asked: int, answered: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ignored, so that the kernel reaps ended children
    with os.fdopen(asked) as lines:
        for line in lines:
            wanted = json.loads(line)
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                die_with_parent(parent)
                _become(wanted["arguments"], Path(wanted["log"]))
            os.write(answered, b"%d" % pid)
    os._exit(0)


def _become(arguments: Sequence[str], log: Path) -> NoReturn:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    append_output(log, log)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: threading.Thread(target=_look_at_mirror, args=[log]).start())
    run_kilonova(arguments)


def _look_at_mirror(log: Path) -> None:
    """Compare this process's mirror with a newly loaded one; the result file is empty if they are equal."""
    said = ""
    try:
        gc.unfreeze()  # gc.get_objects() omits frozen objects
        (core,) = (each for each in gc.get_objects() if isinstance(each, Core))
        assert core.mirror.assumed() == (), core.mirror.assumed()
        assert_follows(core.mirror, core.database)
    except BaseException:  # noqa: BLE001 - it is written to the file for the caller
        said = traceback.format_exc()
    draft = log.with_suffix(".draft")
    draft.write_text(said)
    draft.replace(log.with_suffix(LOOKED_SUFFIX))
