# SPDX-License-Identifier: Apache-2.0
"""A private libvirtd in a folder. It stops when the process that started it stops; its guests keep running.

It is isolated from the system's libvirtd and from the guests of the system's libvirtd. Run as root, it is a "system"
libvirtd in its own namespaces (``libvirt_keeper.py``); run as any other user, it is a "session" libvirtd with its files
in this folder. If it is started again in the same folder, it has the same host UUID and finds its guests.
"""

import contextlib
import hashlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from kilonova.bundled_services.daemon_probe import accepts_connections, wait_for_end, wait_until_ready
from kilonova.bundled_services.libvirt_keeper import PLACES
from kilonova.bundled_services.libvirt_leftovers import forget_ended, tidy_logs
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.program_path import PATH
from kilonova.bundled_services.short_way import make_short_way, short_way
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.records import dataclass

_START_S = 30.0
_STOP_S = 15.0
_END_S = 15.0
_QUIT_S = 5.0
#: The longest path of a socket that libvirt creates below XDG_CONFIG_HOME, relative to that folder.
_LONGEST = "/libvirt/qemu/channel/target/domain-10000-instance-00000001/org.qemu.guest_agent.0"
_PROGRAMS = ("libvirtd", "qemu-system-x86_64", "qemu-img")
_LAST_LINES = 10
#: Paths of libvirt's QEMU driver within the folder: status files of running guests, sockets, logs and definitions of
#: guests.
_PRIVATE_PLACES = ("run/qemu", "lib/qemu", "log/qemu", "etc/qemu")
_SESSION_PLACES = ("run/libvirt/qemu/run", "libvirt/qemu", "cache/libvirt/qemu/log", "libvirt/qemu")
_LIBVIRTD_CONF = """\
# Written at every start.
host_uuid = "{uuid}"
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
unix_sock_admin_perms = "0700"
log_level = 3
log_outputs = "3:file:{log}"
"""
#: QEMU runs as the same user as libvirtd. Only this user can access the folder, which gives full control of the guests.
_QEMU_CONF = """\
# Written at every start.
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
security_default_confined = 0
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
swtpm_user = "root"
swtpm_group = "root"
"""
#: Ports of VNC consoles. Each libvirtd of a machine has its own range. In a common range, two libvirtd that search for
#: a free port at the same time would find the same port.
_SCREENS = """\
remote_display_port_min = {first}
remote_display_port_max = {last}
"""
#: Makes libvirt probe the CPU of an emulator with two QMP commands. Without KVM, the usual 400 commands take as long
#: as the start of a guest. Not used with KVM, because then the two commands do not show all CPU features.
_FEW_QUESTIONS = 'capability_filters = ["cpu-unavailable-features"]\n'
_FIRST_PORT, _PORTS, _PORT_RANGES = 5900, 200, 130


def missing_programs() -> tuple[str, ...]:
    """Return the names of missing programs that guests need."""
    return tuple(name for name in _PROGRAMS if shutil.which(name, path=PATH) is None)


@dataclass(frozen=True, slots=True)
class GuestNetwork:
    """Network namespace of guests. ``namespace``: its file. ``ovs_run``: folder with the socket of its Open vSwitch."""

    namespace: Path
    ovs_run: Path | None = None


class Libvirtd:
    """One private libvirtd. Start it from the main thread: it is killed when the thread that started it exits.

    ``host``: the host name that libvirtd sees; effective only for root. ``emulates``: no guest will use KVM.
    ``guests_end_with_parent``: kill the guests, too, when the process that started libvirtd exits.
    ``network``: network namespace of libvirtd and its guests; only for root. None: that of this process.
    ``name``: name of the process in messages.
    """

    def __init__(
        self,
        folder: Path,
        host: str | None = None,
        *,
        emulates: bool = False,
        guests_end_with_parent: bool = False,
        network: GuestNetwork | None = None,
        name: str = "libvirtd",
    ) -> None:
        self.name = name
        self.folder = folder.absolute()
        self._host = host or socket.gethostname()
        self.emulates = emulates
        self._guests_end = guests_end_with_parent
        self._network = network
        self._private = os.geteuid() == 0
        self._base = short_way(self.folder, len(os.fsencode("/run/libvirt-sock" if self._private else _LONGEST)))
        self.log = self.folder / "log" / "libvirtd.log"
        self.pid = 0
        self.pidfd = -1
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The connection URI for ``libvirt.open`` and ``virsh -c``."""
        return f"qemu+unix:///{'system' if self._private else 'session'}?socket={quote(self.socket)}"

    @property
    def socket(self) -> str:
        return f"{self._base}/run/libvirt-sock" if self._private else f"{self._base}/run/libvirt/libvirt-sock"

    def start(self) -> None:
        """Start libvirtd without waiting until it accepts connections. Raises: ConfigurationError, Unavailable."""
        if missing := missing_programs():
            raise ConfigurationError(f"this machine lacks {', '.join(missing)}")
        self._make_folders()
        self._write_files()
        self._tidy()
        conf = "/etc/libvirt/libvirtd.conf" if self._private else f"{self._base}/libvirtd.conf"
        pid_file = "/run/libvirt/libvirtd.pid" if self._private else f"{self._base}/run/libvirtd.pid"
        command = [shutil.which("libvirtd", path=PATH) or "libvirtd", "-f", conf, "-p", pid_file]
        reading, writing = os.pipe()
        arguments = [str(os.getpid()), str(writing), str(int(self._guests_end))]
        arguments += [str(self.folder), self._host] if self._private else ["", ""]
        arguments.append(str(self._network.namespace) if self._network else "")
        with (self.folder / "log" / "start.log").open("wb" if self._keeper is None else "ab") as output:
            self._keeper = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "kilonova.bundled_services.libvirt_keeper", *arguments, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=self._environment(),
                pass_fds=[writing],
                start_new_session=True,  # Ctrl-C must reach the supervisor only
            )
        os.close(writing)
        with os.fdopen(reading, "rb") as report:
            ready, _, _ = select.select([report], [], [], _START_S)
            line = report.readline() if ready else b""
        if not line:
            self._keeper.kill()
            self._keeper.wait()
            raise Unavailable(f"libvirtd did not start: {self.last_words()}")
        self.pid = int(line)
        self.pidfd = os.pidfd_open(self.pid)

    def ended(self) -> bool:
        """Return whether libvirtd has exited or was never started."""
        return self.pidfd < 0 or wait_for_end(self.pidfd, 0)

    def answers(self) -> bool:
        """Return whether libvirtd accepts connections."""
        return accepts_connections(self.socket)

    def wait(self) -> None:
        """Wait until libvirtd accepts connections. Raises: Unavailable."""
        wait_until_ready(self, _START_S)

    def obituary(self) -> str:
        """Return the error message for a libvirtd that has exited, with the last lines that it wrote."""
        return "\n  ".join([f"{self.name} ended; the last lines of {self.log}:", *self.last_words().splitlines()])

    def last_words(self) -> str:
        """Return the last lines of libvirtd's output at its start, followed by the last lines of its log."""
        texts = [
            path.read_text(errors="replace") for path in (self.folder / "log/start.log", self.log) if path.exists()
        ]
        lines = [line for text in texts for line in text.splitlines()[-_LAST_LINES:]]
        return "\n".join(lines) or "it wrote nothing"

    def stop(self) -> None:
        """Stop libvirtd with SIGTERM, or with SIGKILL after a timeout. Guests keep running."""
        if not self.ended():
            _send(self.pidfd, signal.SIGCONT)  # a process stopped by SIGSTOP does not handle SIGTERM
            _send(self.pidfd, signal.SIGTERM)
            wait_for_end(self.pidfd, _STOP_S)
        self.kill()
        if not self.guests():
            self._unlink()

    def kill(self) -> None:
        """Kill libvirtd to simulate a crash. It can be started again. Guests keep running."""
        if self.pidfd >= 0:
            _send(self.pidfd, signal.SIGKILL)
            wait_for_end(self.pidfd, _END_S)
            os.close(self.pidfd)
            self.pidfd = -1
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # the keeper runs until the last guest exits
                self._keeper.wait(0.2)

    def ending(self) -> str:
        return "ended"  # only the keeper knows the exit status of libvirtd

    def restart(self) -> None:
        """Start libvirtd again after it has exited; it finds its guests. Raises: ConfigurationError, Unavailable."""
        self.kill()
        self.start()

    def guests(self) -> dict[str, int]:
        """Return guest name → pid for all running guests, even if libvirtd does not run."""
        found = {}
        for pid, words in self.processes():
            if "-name" in words[:-1] and Path(words[0]).name.startswith("qemu"):
                options = words[words.index("-name") + 1].split(",")
                found.update({option.removeprefix("guest="): pid for option in options if option.startswith("guest=")})
        return found

    def processes(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (pid, command) of all processes of this folder, including those that an earlier libvirtd started."""
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal() and self._is_ours(int(entry.name)):
                with contextlib.suppress(OSError):
                    words = Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if words[0]:
                        yield int(entry.name), words

    def end_guests(self) -> None:
        """Stop every guest and every other emulator process that libvirtd has left: with SIGTERM, then SIGKILL."""
        # on SIGTERM, QEMU flushes disks
        for number, timeout_s in ((signal.SIGTERM, _QUIT_S), (signal.SIGKILL, _END_S)):
            deadline = time.monotonic() + timeout_s
            pidfds = [pidfd for pid, words in self.processes() if _is_emulator(words) and (pidfd := self._open(pid))]
            for pidfd in pidfds:
                _send(pidfd, number)
            for pidfd in pidfds:
                wait_for_end(pidfd, deadline - time.monotonic())
                os.close(pidfd)

    def remove(self) -> None:
        """Stop libvirtd, kill its guests and remove the folder."""
        self.stop()
        self.end_guests()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._unlink()

    def _unlink(self) -> None:
        """Remove the short link to the folder. Call this only when no guest runs, since guests use the link."""
        if self._base != str(self.folder):
            Path(self._base).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove stale files of a stopped libvirtd from the folder."""
        run, kept, logs, defined = _PRIVATE_PLACES if self._private else _SESSION_PLACES
        forget_ended(self.folder / run, self.folder / kept, self._is_ours)
        tidy_logs(self.log, self.folder / logs, self.folder / defined)

    def _open(self, pid: int) -> int | None:
        """Return a pidfd of process ``pid``, or None if it has exited, even if another process now has its pid."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        if self._is_ours(pid):
            return pidfd
        os.close(pidfd)
        return None

    def _is_ours(self, pid: int) -> bool:
        """Return whether a process belongs to this folder.

        In libvirtd's own namespaces, /run/libvirt of the process is in the folder; otherwise the command or environment
        of the process names the folder.
        """
        with contextlib.suppress(OSError):
            if self._private:
                return Path("/proc", str(pid), "root", "run", "libvirt").samefile(self.folder / "run")
            told = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            return any(f"{folder}/".encode() in told for folder in {self._base, str(self.folder)})
        return False

    def _make_folders(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name in {*PLACES.values(), "nothing", "etc/qemu", "etc/nwfilter", "libvirt/qemu"}:
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._private:
            barred = [each for each in self.folder.parents if each.stat().st_uid != 0 and not each.stat().st_mode & 1]
            if barred:
                raise ConfigurationError(f"QEMU runs as root without capabilities and cannot enter {barred[0]}")
        if self._base != str(self.folder):
            make_short_way(Path(self._base), self.folder)

    def _write_files(self) -> None:
        identity = self.folder / "host_uuid"
        if not identity.exists():
            write_private(identity, f"{uuid.uuid4()}\n")
        log = "/var/log/libvirt/libvirtd.log" if self._private else f"{self._base}/log/libvirtd.log"
        conf = _LIBVIRTD_CONF.format(uuid=identity.read_text(encoding="utf-8").strip(), log=log)
        more = self._screens() + (_FEW_QUESTIONS if self.emulates else "")
        if self._private:
            write_private(self.folder / "etc" / "libvirtd.conf", f'{conf}unix_sock_group = "root"\n')
            write_private(self.folder / "etc" / "qemu.conf", _QEMU_CONF + more)
            write_private(self.folder / "etc" / "libvirt.conf", "")
        else:
            write_private(self.folder / "libvirtd.conf", conf)
            write_private(self.folder / "libvirt" / "qemu.conf", 'stdio_handler = "file"\n' + more)

    @property
    def screen_ports(self) -> tuple[int, int]:
        """The first and the last port of VNC consoles."""
        number = int(hashlib.sha256(os.fsencode(self.folder)).hexdigest(), 16) % _PORT_RANGES
        first = _FIRST_PORT + number * _PORTS
        return first, first + _PORTS - 1

    def _screens(self) -> str:
        first, last = self.screen_ports
        return _SCREENS.format(first=first, last=last)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ", "PYTHONPATH", "TMPDIR") if name in os.environ
        }
        if self._network is not None and self._network.ovs_run is not None:
            kept["OVS_RUNDIR"] = str(self._network.ovs_run)  # libvirt calls ovs-vsctl without --db
        if self._private:
            return {**kept, "PATH": PATH, "HOME": "/root"}
        return {
            **kept,
            "PATH": PATH,
            "HOME": self._base,
            "XDG_CONFIG_HOME": self._base,
            "XDG_RUNTIME_DIR": f"{self._base}/run",
            "XDG_CACHE_HOME": f"{self._base}/cache",
            "XDG_DATA_HOME": f"{self._base}/lib",
        }


def _is_emulator(words: Sequence[str]) -> bool:
    return Path(words[0]).name.startswith(("qemu", "swtpm"))


def _send(pidfd: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
