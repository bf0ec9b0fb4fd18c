# SPDX-License-Identifier: Apache-2.0
"""Execution of disk programs such as qemu-img, with resource limits.

A program is killed when the thread that runs it ends.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import PurePath

from kilonova.errors import DriverError
from kilonova.records import dataclass

_POLL_S = 0.1
_SAID_BYTES = 300
#: Directories of the mkfs programs; the PATH of a service may lack them.
_SYSTEM_PATH = "/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a program. Units: seconds and bytes.

    ``output_bytes``: maximum size of each file that it writes, including its standard output; None for no limit.
    """

    wall_s: float = 60.0
    cpu_s: int = 30
    memory_bytes: int = 1 << 30
    output_bytes: int | None = 1 << 20


#: Limits of programs that read or write only a header.
SHORT = Limits(output_bytes=None)
#: Limits of programs that copy a whole disk.
LONG = Limits(wall_s=6 * 3600.0, cpu_s=6 * 3600, memory_bytes=4 << 30, output_bytes=None)


class CommandFailed(DriverError):
    """A program failed, exceeded its time limit, or does not exist."""


def run(command: Sequence[str | PurePath], limits: Limits = SHORT, check: Callable[[], None] = lambda: None) -> bytes:
    """Run a program and return its standard output.

    ``check`` is called repeatedly; if it raises, the program is killed. Raises: CommandFailed, and any error of
    ``check``.
    """
    name = str(command[0])
    check()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(  # noqa: S603 - no shell, and trusted paths
                [*_confined(limits), *(str(each) for each in command)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                umask=0o077,
                env={"PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SYSTEM_PATH}", "LC_ALL": "C"},
            )
        except OSError as error:
            raise CommandFailed(f"{name} cannot be run: {error.strerror}.") from error
        try:
            status = _wait(child, limits.wall_s, check)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if status is None:
            raise CommandFailed(f"{name} took longer than {limits.wall_s:.0f} seconds.")
        if status:
            err.seek(0)
            raise CommandFailed(_complaint(name, status, err.read(_SAID_BYTES).decode("utf-8", "replace")))
        out.seek(0)
        return out.read()


def _wait(child: "subprocess.Popen[bytes]", seconds: float, check: Callable[[], None]) -> int | None:
    until = time.monotonic() + seconds
    ended = os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if poll.poll(1000 * min(left, _POLL_S)):
                return child.wait()
            check()
        return None
    finally:
        os.close(ended)


def _confined(limits: Limits) -> list[str]:
    confined = ["setpriv", "--pdeathsig", "KILL", "prlimit", f"--cpu={limits.cpu_s}", f"--as={limits.memory_bytes}"]
    if limits.output_bytes is not None:
        confined.append(f"--fsize={limits.output_bytes}")
    return confined


def _complaint(name: str, status: int, said: str) -> str:
    if status == -signal.SIGXCPU:
        return f"{name} exceeded its limit of CPU time."
    said = " ".join(said.split())
    return f"{name} failed with status {status}{': ' if said else ''}{said or '.'}"
