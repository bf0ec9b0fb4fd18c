# SPDX-License-Identifier: Apache-2.0
"""Child processes that log to a file, are killed when this process dies, and are stopped by their own pid."""

import contextlib
import http.client
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol, TypeVar
from urllib.parse import urlsplit

from kilonova.bundled_services import port_probe
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.process_signals import Wakeup

_STOP_TIMEOUT_S = 8.0
_PROBE_TIMEOUT_S = 2.0
_LAST_WORDS = 15  # lines

#: Command that runs the module named next. Without -P, Python would look for modules in the data folder, too, and
#: stevedore would search all installed packages at every start, because its cache depends on the folder's time.
RUN_MODULE = (sys.executable, "-P", "-m")

AnyWatched = TypeVar("AnyWatched", bound="Watched")


class Watched(Protocol):
    """A process of a cloud. ``pidfd``: file descriptor of the process; -1 if there is no process."""

    name: str
    log: Path
    pidfd: int

    def ended(self) -> bool: ...
    def answers(self) -> bool:
        """Return whether the process is ready. Raises: Unavailable."""

    def ending(self) -> str:
        """Return how the process ended, as a predicate: "was killed by SIGKILL"."""

    def obituary(self) -> str:
        """Return how the process ended, with the last lines of its log."""

    def kill(self) -> None:
        """Kill the process. No error if it has ended already."""

    def restart(self) -> None:
        """Start the process again after it has ended. Call it in the main thread. Raises: OSError, KilonovaError."""


class Started(Protocol):
    """A process that this process has started, as `subprocess.Popen` describes it."""

    @property
    def pid(self) -> int: ...
    def wait(self) -> object: ...


class Child:
    """One running child. Start it from the main thread: it is killed when the thread that started it exits."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        probe_url: str,
        cwd: Path,
        python_path: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.probe_url = probe_url
        self._command = list(command)
        self._cwd = cwd
        self._python_path = tuple(python_path)
        self._start()

    def _start(self) -> None:
        with _open_log(self.log) as output:
            self._log_start = output.tell()
            self._log_inode = os.fstat(output.fileno()).st_ino
            self._process = self._launch(output)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)

    def _launch(self, output: IO[bytes]) -> Started:
        """Start the command as a new process whose output goes to ``output``."""
        parent = os.getpid()
        return subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._cwd,
            env=self._environment(),
            start_new_session=True,  # Ctrl-C must reach the supervisor only
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  # safe: one thread, no import after fork
        )

    def _environment(self) -> dict[str, str]:
        return _environment(os.environ, self._python_path)

    def ended(self) -> bool:
        """Return whether the process has exited, without reaping it: its pid is not reused before `reap`."""
        return has_ended(self)

    def answers(self) -> bool:
        """Return whether the service answers its probe successfully."""
        where = urlsplit(self.probe_url)
        host, port = where.hostname or "", where.port or http.client.HTTP_PORT
        connection = http.client.HTTPConnection(host, port)
        try:
            connection.sock = port_probe.connect(host, port, _PROBE_TIMEOUT_S)
            connection.request("GET", where.path)
            return connection.getresponse().status in (200, 300)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def ask_to_stop(self) -> None:
        signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its process group."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)  # a child just forked has no group of its own yet
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Kill the process and its process group, and reap it."""
        self.kill()
        self._process.wait()
        os.close(self.pidfd)

    def restart(self) -> None:
        """Start the process again after it has ended. Call it in the main thread. Raises: OSError."""
        self.kill()  # processes that the ended process has started may still run
        ended, pidfd = self._process, self.pidfd
        self._start()
        ended.wait()  # after the start, so that `reap` still has an unreaped process if the start fails
        os.close(pidfd)

    def ending(self) -> str:
        """Return the exit status or signal. Waits for the exit."""
        return ending(self.pidfd)

    def obituary(self) -> str:
        """Return the exit status or signal and the last lines of the log. Waits for the exit."""
        how = self.ending()
        with self.log.open("rb") as file:
            found = os.fstat(file.fileno())
            start = self._log_start if found.st_ino == self._log_inode else 0  # the log may have been rotated
            file.seek(max(start, found.st_size - 16_384))
            last = file.read().decode(errors="replace").splitlines()[-_LAST_WORDS:]
        if not last:
            return f"{self.name} {how}; it wrote nothing to {self.log}"
        return "\n  ".join([f"{self.name} {how}; the last lines of {self.log}:", *last])


def has_ended(child: Watched) -> bool:
    """Return whether a process has exited, without reaping it."""
    return bool(_ended([child], 0))


def ending(pidfd: int) -> str:
    """Return how a process ended: its exit status or signal, if it is an unreaped child. Waits for the exit."""
    try:
        end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return "ended"
    if end is None or end.si_code == os.CLD_EXITED:
        return f"ended with exit status {end.si_status if end else 'unknown'}"
    return f"was killed by {signal.Signals(end.si_status).name}"


def wait(children: Sequence[Watched], timeout_s: float | None, signals: Wakeup) -> None:
    """Wait until one of the children exits or a signal arrives. ``timeout_s``: None for no timeout."""
    _ended(children, timeout_s, signals)


def stop(children: Sequence[Child], timeout_s: float = _STOP_TIMEOUT_S) -> None:
    """Send SIGTERM to all children, wait, and kill those that still run. Returns when all children have exited."""
    for child in children:
        child.ask_to_stop()
    deadline = time.monotonic() + timeout_s
    waiting = [child for child in children if not child.ended()]
    while waiting and time.monotonic() < deadline:
        _ended(waiting, deadline - time.monotonic())
        waiting = [child for child in waiting if not child.ended()]
    for child in children:
        child.reap()


def _ended(children: Sequence[AnyWatched], timeout_s: float | None, signals: Wakeup | None = None) -> list[AnyWatched]:
    """Wait until a child exits or a signal arrives; return the children that have exited.

    ``timeout_s``: None for no timeout.
    """
    poll = select.poll()  # select() fails for descriptors above 1,023
    if signals is not None:
        poll.register(signals, select.POLLIN)
    for child in children:
        poll.register(child.pidfd, select.POLLIN)
    ready = dict(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))
    if signals is not None and signals.fileno() in ready:
        signals.wait()  # returns at once, because a signal has arrived; the handler may raise an exception
    return [child for child in children if child.pidfd in ready]


def _open_log(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _environment(inherited: Mapping[str, str], python_path: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of children, without OpenStack settings and variables that look like HTTP headers.

    ``python_path``: folders added to the end of PYTHONPATH. NumPy's linear algebra, which no child uses, starts a
    thread for each core unless a variable sets the number of threads.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(("OS_", "HTTP_X_"))}
    direct = ",".join(filter(None, (kept.get("no_proxy"), "127.0.0.1", "localhost", "::1")))
    folders = os.pathsep.join(filter(None, (kept.get("PYTHONPATH"), *python_path)))
    path = {"PYTHONPATH": folders} if folders else {}
    return {"OPENBLAS_NUM_THREADS": "1", **kept, **path, "no_proxy": direct, "PYTHONUNBUFFERED": "1"}
