# SPDX-License-Identifier: Apache-2.0
"""A private OVN with a logical switch, and stations on it that are no guests."""

import subprocess
import sys
from pathlib import Path

from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.ovn import Ovn
from kilonova.bundled_services.ovs_process import OvsProcess


class OvnCloud:
    """OVN in a folder, and what Neutron would do with it."""

    def __init__(self, folder: Path, *hosts: str, address: str | None = None) -> None:
        self.ovn = Ovn(folder, *(hosts or ("metal",)), address=address)

    def switch(self, name: str, **ports: str) -> None:
        """Create a logical switch with ports. ``ports``: name → MAC and IP address."""
        words = ["--may-exist", "ls-add", name]
        for port, addresses in ports.items():
            words += ["--", "--may-exist", "lsp-add", name, port, "--", "lsp-set-addresses", port, addresses]
        run("ovn-nbctl", f"--db={self.ovn.databases.northbound}", *words)

    def station(self, device: str, port: str, mac: str, address: str, host: int = 0) -> "Station":
        """Connect a network namespace of its own to a port, as libvirt connects a guest. ``host``: its number."""
        self.vsctl(
            *("--may-exist", "add-port", "br-int", device, "--", "set", "Interface", device, "type=internal"),
            *(f"mac={mac.replace(':', chr(92) + ':')}", f"external_ids:iface-id={port}"),
            host=host,
        )
        return Station(self, host, device, mac, address)

    def vsctl(self, *words: str, host: int = 0) -> str:
        return run("ovs-vsctl", f"--db=unix:{self.ovn.hosts[host].guests.ovs_run}/db.sock", "--timeout=20", *words)


def run_pid(process: OvsProcess) -> int:
    """Return the pid of a process."""
    line = Path(f"/proc/self/fdinfo/{process.pidfd}").read_text().partition("Pid:")[2]
    return int(line.split()[0])


SERVE = "import socket, time; s = socket.create_server(({0!r}, {1})); print(flush=True); time.sleep(600)"
CONNECT = "import socket; socket.create_connection(({0!r}, {1}), timeout=2)"
PORT = 4567


class Station:
    """A network namespace with one device of Open vSwitch, which listens on TCP port ``PORT``."""

    def __init__(self, cloud: OvnCloud, host: int, device: str, mac: str, address: str) -> None:
        self._cloud, self._host, self._device = cloud, host, device
        network = cloud.ovn.hosts[host].network.name
        self.name = f"{network}-{device}"
        run("ip", "netns", "add", self.name)
        run("ip", "-n", network, "link", "set", device, "netns", self.name)
        run("ip", "-n", self.name, "link", "set", device, "address", mac, "mtu", "1442", "up")
        run("ip", "-n", self.name, "address", "add", address, "dev", device)
        self._server = listen_in(self.name, address.partition("/")[0])

    def reaches(self, address: str) -> bool:
        return reaches(address, self.name)

    def remove(self) -> None:
        """Remove the station; no error if it has been removed."""
        if self._server.returncode is not None:
            return
        self._server.kill()
        self._server.communicate()
        self._cloud.vsctl("--if-exists", "del-port", self._device, host=self._host)
        run("ip", "netns", "delete", self.name)


def listen_in(namespace: str, address: str) -> subprocess.Popen[bytes]:
    """Start a TCP server in a network namespace."""
    words = ["ip", "netns", "exec", namespace, sys.executable, "-c", SERVE.format(address, PORT)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline()
    return server


def reaches(address: str, namespace: str | None = None) -> bool:
    """Return whether a TCP connection to a server is possible, from a network namespace or from this one."""
    within = [] if namespace is None else ["ip", "netns", "exec", namespace]
    words = [*within, sys.executable, "-c", CONNECT.format(address, PORT)]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
