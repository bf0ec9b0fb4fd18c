# SPDX-License-Identifier: Apache-2.0
"""The process around a private libvirtd: it keeps it apart from the system's libvirt, and reaps its guests.

::

    who started it ── keeper ── libvirtd          ends when the keeper does, or who started that
                             ├─ QEMU of a guest   goes on: a guest outlives libvirtd
                             └─ QEMU of a guest

A QEMU process detaches from libvirtd, and would become a child of process 1. It becomes one of the keeper: in a
container process 1 may reap late or never, and libvirt takes a guest for running until it is reaped. So the keeper
stays until the last guest of its libvirtd is gone.

As root, libvirtd and QEMU get mount and UTS namespaces: `/run/libvirt` and its like are folders of the node there, the
host's name is the node's, and there is the account that libvirtd looks for. Neither cgroups nor D-Bus are seen, by
which libvirt would register the guests with the system. Nobody else is affected.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from kilonova.bundled_services.parent_death import die_with_parent

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CLONE_NEWNS, _CLONE_NEWUTS = 0x00020000, 0x04000000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000  # linux/mount.h
_MNT_DETACH = 2
_STOP_S = 10

#: Where a libvirtd of the system has its files, and the folder of the node that is seen there instead.
PLACES = {
    "/etc/libvirt": "etc",
    "/run/libvirt": "run",
    "/var/lib/libvirt": "lib",
    "/var/cache/libvirt": "cache",
    "/var/log/libvirt": "log",
}
_HIDDEN = "/run/dbus"
#: An account that libvirtd wants to see, whoever runs its QEMU. It comes with Debian's libvirt-daemon-system.
_ACCOUNT = "libvirt-qemu"
_ACCOUNT_LINES = {
    "/etc/passwd": f"{_ACCOUNT}:x:64055:64055::/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"{_ACCOUNT}:x:64055:\n",
}

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Arguments: parent, pipe to report libvirtd's process to, 1 to end guests with the parent, folder, host, command.

    Without a folder it stays in the namespaces of the parent.
    """
    parent, report = int(sys.argv[1]), int(sys.argv[2])
    ends_guests, folder, host, command = sys.argv[3] == "1", sys.argv[4], sys.argv[5], sys.argv[6:]
    own = os.getpid()
    try:
        _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        if folder:
            _enter_namespaces(Path(folder), host)
        daemon = subprocess.Popen(command, preexec_fn=lambda: die_with_parent(own))  # noqa: S603, PLW1509  one thread
    except PermissionError as error:
        sys.exit(f"{error.strerror}; root of this container may make no namespaces: start it as another user")
    except OSError as error:
        sys.exit(str(error))
    daemon_pid = daemon.pid
    ended = False

    def stop(_number: int, _frame: object) -> None:
        """Ask libvirtd to end. Sent by who started this, and by the kernel when that has ended."""
        if not ended:
            os.kill(daemon_pid, signal.SIGTERM)
            signal.alarm(_STOP_S)
        if ends_guests and os.getppid() != parent:
            _kill_children(but=daemon_pid)

    def lose_patience(_number: int, _frame: object) -> None:
        if not ended:
            os.kill(daemon_pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, lose_patience)
    die_with_parent(parent, signal.SIGTERM)
    os.write(report, f"{daemon_pid}\n".encode())
    os.close(report)
    with contextlib.suppress(ChildProcessError):
        while True:
            pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # its id stays its own until it is known to be over
            assert pid is not None
            ended = ended or pid.si_pid == daemon_pid
            os.waitpid(pid.si_pid, 0)
            if ended and ends_guests and os.getppid() != parent:
                _kill_children(but=0)


def _enter_namespaces(folder: Path, host: str) -> None:
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS), "unshare")
    _mount(None, "/", _MS_REC | _MS_SLAVE)  # what the system mounts later is seen here; nothing from here is seen there
    socket.sethostname(host)
    for place, inside in PLACES.items():
        Path(place).mkdir(parents=True, exist_ok=True)
        _mount(str(folder / inside), place, _MS_BIND)
    if Path(_HIDDEN).is_dir():
        _mount(str(folder / "nothing"), _HIDDEN, _MS_BIND)
    for place, line in _ACCOUNT_LINES.items():
        known = Path(place).read_text(encoding="utf-8", errors="surrogateescape")
        if not any(known_line.startswith(f"{_ACCOUNT}:") for known_line in known.splitlines()):
            file = folder / "accounts" / Path(place).name
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_text(f"{known.rstrip()}\n{line}", encoding="utf-8", errors="surrogateescape")
            file.chmod(0o644)
            _mount(str(file), place, _MS_BIND)
    for line in reversed(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()):
        _, place, kind, *_ = line.split(" ")
        if kind in ("cgroup", "cgroup2"):
            _libc.umount2(place.encode(), _MNT_DETACH)  # else libvirt would make groups named as others' guests


def _kill_children(but: int) -> None:
    """Kill the guests. A child that has ended is not reaped meanwhile: its id is nobody else's."""
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != but:
            with contextlib.suppress(OSError):
                state = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
                if int(state.split()[1]) == own:
                    os.kill(int(entry.name), signal.SIGKILL)


def _mount(source: str | None, target: str, flags: int) -> None:
    where = None if source is None else os.fsencode(source)
    _check(_libc.mount(where, os.fsencode(target), None, ctypes.c_ulong(flags), None), f"mount of {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what} failed: {os.strerror(number)}")


if __name__ == "__main__":
    main()
