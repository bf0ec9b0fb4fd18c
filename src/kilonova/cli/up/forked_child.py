# SPDX-License-Identifier: Apache-2.0
"""Children that share the memory of modules which the supervisor has loaded.

A child is forked and runs its module in the copy of the supervisor, as ``python -P -m`` would in a new process. The
modules in ``shared_modules.py`` are loaded once, for all children.

``multiprocessing`` forks processes, too, but each start of a process reaps those that have ended, whose pids the
supervisor still needs (`Child.reap`), and its processes do not run the functions registered with ``atexit``.
"""

import atexit
import gc
import io
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from setproctitle import setproctitle

from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.cli.up.children import RUN_MODULE, Child, Started

#: A signal mask, as `signal.pthread_sigmask` returns it.
Signals = set[int | signal.Signals]
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_OF_PARENT = 3  # descriptors from this number on belong to the supervisor
_MOST_DESCRIPTORS = 2**30


class ForkedChild(Child):
    """A child in a copy of this process, if its command begins with ``RUN_MODULE``; other commands run as in `Child`.

    This process must have one thread only.
    """

    def _launch(self, output: IO[bytes]) -> Started:
        if tuple(self._command[: len(RUN_MODULE)]) != RUN_MODULE:
            return super()._launch(output)
        sys.stdout.flush()
        gc.freeze()  # a garbage collection in the child would copy the pages of all objects
        parent = os.getpid()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)  # until the child has replaced the handlers
        try:
            pid = os.fork()
            if pid == 0:
                self._run_module(parent, output, blocked)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return _Forked(pid)

    def _run_module(self, parent: int, output: IO[bytes], blocked: Signals) -> NoReturn:
        """Run the command in this process, and exit.

        Nothing of the supervisor is cleaned up in its copy: its functions do not return, and its objects stay alive.
        """
        status = 1
        try:
            die_with_parent(parent)
            atexit._clear()  # noqa: SLF001 - what the supervisor has registered is not for its copy
            os.setsid()
            _redirect(output)
            _reset_signals(blocked)
            setproctitle(" ".join(self._command))
            os.chdir(self._cwd)
            _set_environment(self._environment(), self._python_path)
            module, *arguments = self._command[len(RUN_MODULE) :]
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as ending:
            status = _status(ending)
        except BaseException:  # noqa: BLE001  last handler of the child
            traceback.print_exc()
        finally:
            _exit(status)


class _Forked:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


def _redirect(output: IO[bytes]) -> None:
    """Read from nowhere, write to ``output``, and close all other descriptors."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.closerange(_FIRST_OF_PARENT, _MOST_DESCRIPTORS)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _unbuffered(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _unbuffered(2)  # type: ignore[misc]


def _unbuffered(descriptor: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.FileIO(descriptor, "w", closefd=False),  # as Python does with PYTHONUNBUFFERED
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def _reset_signals(mask: Signals) -> None:
    """Handle signals as a new process does, which inherits those that are ignored."""
    signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _set_environment(variables: Mapping[str, str], python_path: Sequence[str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder in which the supervisor was started, or the folder of its script
    inherited = len([each for each in variables.get("PYTHONPATH", "").split(os.pathsep) if each]) - len(python_path)
    sys.path[inherited:inherited] = [str(Path(each).absolute()) for each in python_path]


def _status(ending: SystemExit) -> int:
    if ending.code is None or isinstance(ending.code, int):
        return ending.code or 0
    print(ending.code, file=sys.stderr)
    return 1


def _exit(status: int) -> NoReturn:
    """Exit as the interpreter does at the end of a program, but without destroying the supervisor's objects."""
    try:
        # both have no public name; multiprocessing calls the first one in its children, too
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  last handler of the child
        traceback.print_exc()
    finally:
        os._exit(status)
