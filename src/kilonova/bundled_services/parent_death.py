# SPDX-License-Identifier: Apache-2.0
"""Tie a process to its parent, so that not even ``kill -9`` of the parent leaves it behind."""

import ctypes
import multiprocessing
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)  # opened here: nothing may be loaded between fork and exec


def die_with_parent(parent_pid: int | None = None, by: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to kill this process when its parent ends; end at once when the parent is gone already.

    ``by``: another signal than SIGKILL is for a process that has to end others first.

    Call it first thing in the child, or between fork and exec (it survives exec). Without ``parent_pid`` the parent
    that multiprocessing knows is meant. The kernel watches the *thread* that forked: start children from a
    thread that lives as long as the process, such as the main one.
    Raises: OSError.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent_pid is None:
        parent = multiprocessing.parent_process()
        parent_pid = parent.pid if parent else None
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)  # the parent died before the kernel was asked
