# SPDX-License-Identifier: Apache-2.0
"""`kilonova` commands in processes forked from one that has imported Kilonova: imports take most of a start's time."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from kilonova.bundled_services.parent_death import die_with_parent
from support.command_process import append_output, run_kilonova
from support.forkserver import PROCESSES, ensure_running, import_beforehand

import_beforehand(
    "kilonova.cli.main",
    "kilonova.cli.commands.api",
    "kilonova.cli.commands.compute",
    "kilonova.cli.wiring.agent_process",
    "kilonova.cli.wiring.control",
    "kilonova.cli.wiring.http_server",
    "kilonova.messaging.rabbit.conductor_end",
    "kilonova.server.serving",
)


class ForkedCommand:
    """Running ``kilonova`` command in a session of its own, with the methods of ``subprocess.Popen`` that tests use.

    ``log``: file to which its output is appended; ``errors``: another file for standard error. ``environment``:
    variables in addition to those of this process.

    A worker of a ``multiprocessing.Pool`` cannot create such a process, because both are daemonic. In a worker use
    ``crash.launcher``, or ``Served`` with ``is_forked = False``.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        errors: Path | None = None,
    ) -> None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads cannot be forked safely
        known = {**os.environ, **(environment or {})}
        work = {"target": _become, "args": (tuple(arguments), log, errors or log, known)}
        # logs show the name of a process; tests that end early leave no daemon
        ensure_running()
        self._process = PROCESSES.Process(name="MainProcess", daemon=True, **work)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process.name), timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()


def _become(arguments: Sequence[str], log: Path, errors: Path, environment: Mapping[str, str]) -> NoReturn:
    die_with_parent(os.getppid())  # the parent ends with the test process
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    append_output(log, errors)
    run_kilonova(arguments)
