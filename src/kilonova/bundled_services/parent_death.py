# SPDX-License-Identifier: Apache-2.0
"""Ties a process to its parent, so that it does not survive even a ``kill -9`` of the parent."""

import ctypes
import multiprocessing
import os
import signal

_PR_SET_PDEATHSIG = 1  # Defined in linux/prctl.h.
_libc = ctypes.CDLL(None, use_errno=True)  # Loaded at import, because no library may be loaded between fork and exec.


def die_with_parent(parent_pid: int | None = None, by: signal.Signals = signal.SIGKILL) -> None:
    """Make the kernel kill this process when its parent exits; exit immediately if the parent has already exited.

    ``by``: the signal; a process that has to stop other processes first needs a signal that it can handle.

    Call this first in the child, or between fork and exec (the setting survives exec). ``parent_pid`` defaults to the
    parent process known to multiprocessing. The kernel watches the *thread* that forked: start children from a thread
    that lives as long as the parent process, such as its main thread. Raises: OSError.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent_pid is None:
        parent = multiprocessing.parent_process()
        parent_pid = parent.pid if parent else None
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)  # the parent exited before prctl() took effect
