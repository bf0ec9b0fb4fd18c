# SPDX-License-Identifier: Apache-2.0
"""Parent process of a private libvirtd: isolates it from the system's libvirt, and reaps the processes of its guests.

::

    supervisor ──── keeper ──── libvirtd          stops when the keeper or the supervisor stops
                             ├─ QEMU of a guest   continues: a guest outlives libvirtd
                             └─ QEMU of a guest

A QEMU process detaches from libvirtd, and would then become a child of process 1. In a container, process 1 may reap
its children late or never, and libvirt considers a guest running until its process has been reaped. The keeper is
therefore a subreaper, which becomes the parent instead, and runs until the last guest of its libvirtd has exited.

A keeper that runs as root gives libvirtd and QEMU mount and UTS namespaces: in them, `/run/libvirt` and similar paths
are folders of this hypervisor node, the host name is that of the node, and the account that libvirtd requires exists.
Cgroups and D-Bus, through which libvirt would register the guests with the system, are hidden. Processes outside of
these namespaces are not affected. libvirtd and QEMU can also run in a given network namespace, whose bridges then
connect the guests.
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
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000  # linux/mount.h
_MNT_DETACH = 2
_STOP_S = 10
_AWAITED = {signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD}

#: Folder of a system libvirtd → the node's folder that is mounted there instead.
PLACES = {
    "/etc/libvirt": "etc",
    "/run/libvirt": "run",
    "/var/lib/libvirt": "lib",
    "/var/cache/libvirt": "cache",
    "/var/log/libvirt": "log",
}
_HIDDEN = "/run/dbus"
#: An account that libvirtd requires, even if QEMU runs as another user. Debian's libvirt-daemon-system creates it.
_ACCOUNT = "libvirt-qemu"
_ACCOUNT_LINES = {
    "/etc/passwd": f"{_ACCOUNT}:x:64055:64055::/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"{_ACCOUNT}:x:64055:\n",
}

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run libvirtd until it and its guests have exited.

    Command line arguments: pid of the parent, file descriptor to which libvirtd's pid is written, 1 to kill the guests
    when the parent exits, folder, host name, file of a network namespace, command of libvirtd. If the folder argument
    is "", no namespaces are created; if the file argument is "", libvirtd stays in the parent's network namespace.
    """
    parent, report = int(sys.argv[1]), int(sys.argv[2])
    ends_guests, folder, host, network, command = sys.argv[3] == "1", *sys.argv[4:7], sys.argv[7:]
    own = os.getpid()
    try:
        _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        if folder:
            _enter_namespaces(Path(folder), host)
        if network:
            _enter_network(network)
        daemon = subprocess.Popen(command, preexec_fn=lambda: die_with_parent(own))  # noqa: S603, PLW1509  one thread
    except PermissionError as error:
        sys.exit(f"{error.strerror}; root in this container cannot create namespaces: run as another user")
    except OSError as error:
        sys.exit(str(error))
    # Blocked signals stay pending until sigwaitinfo(); a signal handler would miss a signal that arrives just before
    # waitid() blocks.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    die_with_parent(parent, signal.SIGTERM)
    os.write(report, f"{daemon.pid}\n".encode())
    os.close(report)
    _Keeper(daemon.pid, parent, ends_guests=ends_guests).run()


class _Keeper:
    """Waits for signals and children until no child is left."""

    def __init__(self, daemon_pid: int, parent: int, *, ends_guests: bool) -> None:
        self._daemon_pid = daemon_pid
        self._parent = parent
        self._ends_guests = ends_guests
        self._ended = False

    def run(self) -> None:
        while self._reap():
            match signal.sigwaitinfo(_AWAITED).si_signo:
                case signal.SIGTERM:
                    self._stop()
                case signal.SIGALRM if not self._ended:
                    os.kill(self._daemon_pid, signal.SIGKILL)

    def _stop(self) -> None:
        """Handle SIGTERM: stop libvirtd.

        The kernel also sends SIGTERM when the supervisor exits. In that case, if ``ends_guests`` is set, kill the
        guests, too.
        """
        if not self._ended:
            os.kill(self._daemon_pid, signal.SIGTERM)
            signal.alarm(_STOP_S)
        if self._ends_guests and os.getppid() != self._parent:
            _kill_children(but=self._daemon_pid)

    def _reap(self) -> bool:
        """Reap the children that have exited; return whether any child is left."""
        try:
            # WNOWAIT: the kernel does not reuse the pid before the waitpid() below.
            while (exited := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is not None:
                self._ended = self._ended or exited.si_pid == self._daemon_pid
                os.waitpid(exited.si_pid, 0)
                if self._ended and self._ends_guests and os.getppid() != self._parent:
                    _kill_children(but=0)
        except ChildProcessError:
            return False
        return True


def _enter_namespaces(folder: Path, host: str) -> None:
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS), "unshare")
    _mount(None, "/", _MS_REC | _MS_SLAVE)  # mounts made outside become visible in this namespace, but not vice versa
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
            _libc.umount2(place.encode(), _MNT_DETACH)  # libvirt must not see the system's cgroups


def _enter_network(file: str) -> None:
    """Enter a network namespace. Call this in a private mount namespace, because this function replaces /sys."""
    with open(file, "rb") as namespace:  # noqa: PTH123 - only the descriptor is needed
        _check(_libc.setns(namespace.fileno(), _CLONE_NEWNET), f"entering {file}")
    # the present /sys shows the devices of the former network namespace
    _check(_libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "mount of /sys")


def _kill_children(but: int) -> None:
    """Kill all children except ``but``. No child is reaped meanwhile, so no pid can be reused."""
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
