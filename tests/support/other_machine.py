# SPDX-License-Identifier: Apache-2.0
"""Another machine, as a network namespace that reaches this machine by a veth pair only."""

import subprocess
import sys
from pathlib import Path

import psutil

from kilonova.bundled_services.host_network import run, try_run
from kilonova.bundled_services.ovs_folder import OvsFolder
from support.ovn_cloud import CONNECT, PORT, SERVE
from support.waiting import wait_until

#: Addresses of this machine and of the other one.
HERE, THERE = "198.51.100.1", "198.51.100.2"
_NAMESPACE, _DEVICE = "kn-test-machine", "kntestmachine"


class OtherMachine:
    """A machine with a host whose cloud runs on this machine. ``folder``: data folder of the host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._holder: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Create the namespace and the veth pair."""
        self.remove()
        run("ip", "netns", "add", _NAMESPACE)
        run(*f"ip link add {_DEVICE} type veth peer name eth0 netns {_NAMESPACE}".split())
        run("ip", "address", "add", f"{HERE}/24", "dev", _DEVICE)
        run("ip", "link", "set", _DEVICE, "up")
        run("ip", "-n", _NAMESPACE, "address", "add", f"{THERE}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", _NAMESPACE, "link", "set", device, "up")
        # its mount namespace keeps the network namespaces that are made on the machine
        self._holder = subprocess.Popen(["ip", "netns", "exec", _NAMESPACE, "sleep", "infinity"])
        name = Path(f"/proc/{self._holder.pid}/comm")
        wait_until(lambda: name.read_text() == "sleep\n", "the mount namespace")

    def within(self) -> list[str]:
        """Return words before a command that run it on the machine."""
        assert self._holder is not None
        return ["nsenter", f"--target={self._holder.pid}", "--net", "--mount"]

    def command(self, bundle: Path, *more: str) -> list[str]:
        """Return the command that joins the cloud of a bundle. ``more``: further options."""
        words = ["compute", "join", str(bundle), "--address", THERE, "--data", str(self.folder), *more]
        return [*self.within(), sys.executable, "-m", "kilonova", *words]

    def join(self, bundle: Path, *more: str) -> None:
        """Start the host, and wait until it has joined the cloud. ``more``: further options."""
        self._process = subprocess.Popen(
            self.command(bundle, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            if "has joined" in line:
                return
        raise AssertionError(self.lines)

    def vsctl(self, *words: str) -> str:
        socket = f"unix:{OvsFolder(self.folder / 'ovn').run}/db.sock"
        return run("ovs-vsctl", f"--db={socket}", "--timeout=20", *words)

    def connections(self) -> str:
        """Return the TCP connections of the machine, but not those of the namespace of its guests."""
        return run(*self.within(), "ss", "-Htnp", "state", "established")

    def rules(self) -> str:
        """Return the rules of the machine's packet filter."""
        return run(*self.within(), "nft", "list", "ruleset")

    def devices(self) -> set[str]:
        """Return the names of the machine's network devices."""
        return set(run(*self.within(), "ls", "/sys/class/net").split())

    def station(self, port: str, mac: str, address: str) -> None:
        """Connect a station, which listens on TCP, to a port. It has the namespace of the machine's guests."""
        self.vsctl(
            *("--may-exist", "add-port", "br-int", "station", "--", "set", "Interface", "station", "type=internal"),
            *(f"mac={mac.replace(':', chr(92) + ':')}", f"external_ids:iface-id={port}"),
        )
        run(*self.among_guests(), "ip", "link", "set", "station", "mtu", "1442", "up")
        run(*self.among_guests(), "ip", "address", "replace", f"{address}/24", "dev", "station")
        words = [*self.among_guests(), sys.executable, "-c", SERVE.format(address, PORT)]
        self._server = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        assert self._server.stdout.readline()

    def reaches(self, address: str) -> bool:
        words = [*self.among_guests(), sys.executable, "-c", CONNECT.format(address, PORT)]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def among_guests(self) -> tuple[str, ...]:
        """Return words before a command that run it in the namespace of the machine's guests."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children()
        (vswitchd,) = (each.pid for each in children if each.name() == "ovs-vswitchd")
        return "nsenter", f"--net=/proc/{vswitchd}/ns/net"

    def namespace_of_guests(self) -> int:
        """Return the number of the namespace of the machine's guests."""
        return Path(self.among_guests()[1].partition("=")[2]).stat().st_ino

    def kill(self) -> None:
        """Kill the supervisor of the host."""
        self._end_server()
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def stop(self) -> str:
        """Stop the host, and return what it said."""
        self._end_server()
        if self._process is None:
            return ""
        self._process.terminate()
        said, _ = self._process.communicate()
        self._process = None
        return said

    def remove(self) -> None:
        """Stop the host, and remove the namespace and the veth pair."""
        self.stop()
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            self._holder = None
        try_run("ip", "netns", "delete", _NAMESPACE)
        try_run("ip", "link", "delete", _DEVICE)
