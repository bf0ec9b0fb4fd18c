# SPDX-License-Identifier: Apache-2.0
"""The network namespace of real guests, and the veth pairs that connect it with this machine.

::

    machine                          namespace kn-HOST-…
    172.24.4.1/24   ── external ──   ext0, a port of br-ex: floating addresses
    169.254.x.1/30  ── consoles ──   169.254.x.2/30, where the consoles of guests listen
    169.254.x.5/30  ── tunnels ──    phy0, a port of br-phy, with --ovn-address only (machine_tunnel.py)

Guests do not reach the consoles: the namespace forwards no packets, has no other address, and accepts packets on the
consoles' veth pair only from this machine. The namespace outlives the cloud while guests run in it.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kilonova.bundled_services.program_path import PATH
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.records import dataclass

#: This machine's address in the external network ``public``. Neutron's routers use it as their gateway.
EXTERNAL_ADDRESS = "172.24.4.1"
EXTERNAL_NETWORK = "172.24.4.0/24"
_EXTERNAL = f"{EXTERNAL_ADDRESS}/24"
_NAMESPACES = Path("/run/netns")
_METADATA_OCTET = 169
#: Number of the /30 of a host's tunnels, after the 16 hosts' consoles.
_TUNNELS = 32
_NAME_LENGTH = 40
_IPV4 = "/proc/sys/net/ipv4"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9.-]")
#: Kernel settings of the namespace. rp_filter 1 drops packets whose answer would leave through another device.
_SETTINGS = {f"{_IPV4}/ip_forward": 0, f"{_IPV4}/conf/all/rp_filter": 1, f"{_IPV4}/conf/console0/rp_filter": 1}


@dataclass(frozen=True, slots=True)
class VethAddresses:
    """Addresses of the two ends of a veth pair."""

    machine: str
    inside: str


class HostNetwork:
    """Network namespace of a host. ``folder``: data folder of the cloud; ``host``: name of the host of real guests.

    ``number``: of the host within the cloud, from 0 to 63. Host 0 is the gateway to the external network.
    """

    def __init__(self, folder: Path, host: str, number: int = 0) -> None:
        digest = hashlib.sha256(os.fsencode(folder.absolute()))
        plain = _NOT_IN_A_NAME.sub("_", host)[-_NAME_LENGTH:]
        self.name = f"kn-{plain}-{digest.hexdigest()[:6]}"
        self.is_gateway = number == 0
        devices = (f"kn{digest.hexdigest()[:10]}{end}{number or ''}" for end in "ect")
        self.external, self.consoles, self.tunnels = devices
        third, fourth = digest.digest()[-2:]
        third = 1 + third % 253 + (1 + third % 253 >= _METADATA_OCTET)
        self._consoles_addresses = _addresses(third, fourth + 4 * number)
        self.tunnel_addresses = _addresses(third, fourth + 4 * (number + _TUNNELS))

    @property
    def file(self) -> Path:
        return _NAMESPACES / self.name

    @property
    def console_address(self) -> str:
        """The address in the namespace on which consoles listen. This machine can reach it; guests cannot."""
        return self._consoles_addresses.inside

    @property
    def machine_address(self) -> str:
        """Address of this machine that can be reached from the namespace."""
        return self._consoles_addresses.machine

    def make(self) -> None:
        """Create the namespace and its veth pairs. Keep and complete a namespace in use. Raises: ConfigurationError."""
        if self.is_gateway:
            self._require_free()
        if not self.is_in_use():
            self.remove()
        if not self.file.exists():
            try:
                run("ip", "netns", "add", self.name)
            except Unavailable as error:
                raise ConfigurationError(f"--networks needs network namespaces: {error.message}") from error
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        if self.is_gateway:
            self._lay(self.external, "ext0", _EXTERNAL)
            # Open vSwitch in user space gets this machine's packets without the checksums that a network card fills in
            run("ethtool", "-K", self.external, "tx", "off")
        self._lay(self.consoles, "console0", f"{self.machine_address}/30")
        run("ip", "-n", self.name, "address", "replace", f"{self.console_address}/30", "dev", "console0")
        for file, value in _SETTINGS.items():
            run("ip", "netns", "exec", self.name, "sh", "-c", f"echo {value} >{file}")

    def connect_tunnels(self) -> None:
        """Create the veth pair of tunnels to other machines. Raises: Unavailable."""
        self._lay(self.tunnels, "phy0", f"{self.tunnel_addresses.machine}/30")
        # Open vSwitch in user space gets this machine's packets without the checksums that a network card fills in
        run("ethtool", "-K", self.tunnels, "tx", "off")

    def is_in_use(self) -> bool:
        """Return whether processes, such as guests, run in the namespace."""
        return self.file.exists() and bool(run("ip", "netns", "pids", self.name).split())

    def remove(self) -> None:
        """Remove the namespace and its veth pairs; no error if they are absent."""
        if self.file.exists():
            run("ip", "netns", "delete", self.name)
        # the kernel would remove the veth pairs itself, but later
        for device in (self.external, self.consoles, self.tunnels):
            if Path("/sys/class/net", device).exists():
                try_run("ip", "link", "delete", device)

    def devices(self) -> frozenset[str]:
        """Return the names of the network devices in the namespace."""
        return frozenset(link["ifname"] for link in json.loads(run("ip", "-n", self.name, "-j", "link", "show")))

    def within(self, *command: str) -> tuple[str, ...]:
        """Return ``command`` with a prefix, so that it runs in the namespace."""
        return ("ip", "netns", "exec", self.name, *command)

    def _lay(self, here: str, there: str, address: str) -> None:
        if not Path("/sys/class/net", here).exists():
            run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
        # otherwise a guest could configure this machine by a router advertisement
        try_run("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{here}/disable_ipv6")
        run("ip", "address", "replace", address, "dev", here)
        run("ip", "link", "set", here, "up")
        run("ip", "-n", self.name, "link", "set", there, "up")

    def _require_free(self) -> None:
        """Raise ConfigurationError if another device has an address in the external network."""
        for link in json.loads(run("ip", "-j", "-4", "address", "show", "to", _EXTERNAL) or "[]"):
            if link.get("ifname") not in (None, self.external):
                name = link["ifname"]
                raise ConfigurationError(
                    f"--networks needs the addresses {_EXTERNAL}, but the device {name} of this machine has one: "
                    f"another cloud runs with --networks, or was killed (then type: ip link delete {name})"
                )


def _addresses(third: int, fourth: int) -> VethAddresses:
    """Return the addresses of the /30 at 169.254.third.fourth."""
    return VethAddresses(*(f"169.254.{third}.{(fourth & 0xFC) + number}" for number in (1, 2)))


def run(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a program and return its output. Raises: Unavailable with the program's error message."""
    done = _done(command, environment)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command[:4])} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def try_run(*command: str) -> None:
    """Run a program whose failure does not matter."""
    _done(command, None)


def _done(command: Sequence[str], environment: dict[str, str] | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": PATH, **(environment or {})},
    )
