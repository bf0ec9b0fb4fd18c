# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch with OVN for the real guests of this machine, without any kernel module.

::

    Neutron ── northbound ── northd ── southbound ── controller ── switch ── vswitchd    in the guests' namespace:
               database                database                    database              br-int with their ports,
                                                                                         br-ex with the external veth

Packets are switched in user space. All sockets are Unix sockets in one folder, so the machine's own Open vSwitch is not
touched. The databases are kept: after a restart, guests that kept running are connected again.
"""

import os
import shutil
import time
from pathlib import Path

from kilonova.bundled_services.host_network import EXTERNAL_NETWORK, HostNetwork, run
from kilonova.bundled_services.libvirtd import GuestNetwork
from kilonova.bundled_services.masquerade import Masquerade
from kilonova.bundled_services.neutron_conf import EXTERNAL
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import MetadataSettings, OvnDatabases
from kilonova.bundled_services.short_way import make_short_way, short_way
from kilonova.errors import ConfigurationError, Unavailable

_PROGRAMS = ("ip", "ethtool", "ovsdb-server", "ovs-vswitchd", "ovn-northd", "ovn-controller")
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_TUN = Path("/dev/net/tun")
_SCHEMAS = {
    "northbound": "/usr/share/ovn/ovn-nb.ovsschema",
    "southbound": "/usr/share/ovn/ovn-sb.ovsschema",
    "switch": "/usr/share/openvswitch/vswitch.ovsschema",
}
_LONGEST = "/run/ovn-controller.1234567890.ctl"
_READY_S = 30.0
#: One host needs no tunnels, but OVN needs an address for them.
_TUNNEL_ADDRESS = "127.0.0.1"


def why_impossible(*, is_root: bool, path: str = _PATH, tun: Path = _TUN) -> str | None:
    """Return the reason why networks of real guests cannot work on this machine, as one sentence, or None.

    ``path``: folders of programs. ``tun``: the device file from which tap devices are created.
    """
    if not is_root:
        return "--networks with --hypervisor libvirt needs root, which may create network namespaces"
    if missing := [name for name in _PROGRAMS if shutil.which(name, path=path) is None]:
        return f"--networks with --hypervisor libvirt needs {', '.join(missing)}; type: tools/ovn.sh"
    try:
        tun.open("rb").close()
    except OSError as error:
        return f"--networks with --hypervisor libvirt needs {tun}, which cannot be opened: {error.strerror}"
    return None


class Ovn:
    """Open vSwitch and OVN of a cloud. Start them from the main thread: they die when the thread exits.

    ``folder``: data folder of the cloud. ``host``: name of the host of real guests, which Neutron binds ports to.
    ``why_isolated``: after the start, the reason if guests reach no networks beyond this machine, else None.
    """

    def __init__(self, folder: Path, host: str) -> None:
        self.folder = folder.absolute() / "ovn"
        self.host = host
        self.network = HostNetwork(folder, host)
        self._masquerade = Masquerade(self.network.external, EXTERNAL_NETWORK, self.folder / "uplinks")
        self.why_isolated: str | None = None
        self._base = short_way(self.folder, len(_LONGEST))
        self._run = f"{self._base}/run"
        self.processes: tuple[OvsProcess, ...] = (
            self._database("northbound"),
            self._database("southbound"),
            self._database("switch"),
            self._process("northd", f"ovn-northd --ovnnb-db={self.northbound} --ovnsb-db={self.southbound}"),
            self._process("vswitchd", f"ovs-vswitchd {self._switch}", within=True),
            # ovn-controller has no option for the path of its control socket
            self._process("controller", f"ovn-controller {self._switch}", "ovn-controller.{pid}.ctl", within=True),
        )

    @property
    def northbound(self) -> str:
        """Connection to the northbound database, which Neutron writes."""
        return f"unix:{self._run}/northbound.sock"

    @property
    def southbound(self) -> str:
        return f"unix:{self._run}/southbound.sock"

    @property
    def databases(self) -> OvnDatabases:
        return OvnDatabases(self.northbound, self.southbound)

    @property
    def _switch(self) -> str:
        return f"unix:{self._run}/db.sock"

    @property
    def guests(self) -> GuestNetwork:
        """The network namespace for libvirtd."""
        return GuestNetwork(self.network.file, Path(self._run))

    @property
    def agent(self) -> str:
        """Path of the socket at which the host's agent answers the metadata service."""
        return f"{self._run}/agent.sock"

    def metadata_settings(self) -> MetadataSettings:
        """Return the settings of the metadata service."""
        return MetadataSettings(
            agent=self.agent,
            northbound=self.northbound,
            switch=self._switch,
            namespace=self.network.name,
            control=f"{self._run}/metadata.ctl",
        )

    def start(self) -> None:
        """Start all processes and wait until the host is known to OVN. Raises: ConfigurationError, Unavailable."""
        if reason := why_impossible(is_root=os.geteuid() == 0):
            raise ConfigurationError(reason)
        self._make_folders()
        self.network.make()
        self.why_isolated = self._masquerade.start()
        for name, schema in _SCHEMAS.items():
            _prepare(self.folder / f"{name}.db", schema)
        databases, others = self.processes[:3], self.processes[3:]
        for process in databases:
            process.start()
        for process in databases:
            process.wait()
        run("ovn-nbctl", f"--db={self.northbound}", "init")
        run("ovn-sbctl", f"--db={self.southbound}", "init")
        self._configure_switch()
        for process in others:
            process.start()
        for process in others:
            process.wait()
        self._wait_for_chassis()

    def stop(self) -> None:
        """Stop all processes, and remove the namespace unless guests run in it."""
        for process in reversed(self.processes):
            process.stop()
        self._masquerade.stop()
        if not self.network.is_in_use():
            self.network.remove()
        if self._base != str(self.folder):
            Path(self._base).unlink(missing_ok=True)

    def ports(self) -> frozenset[str]:
        """Return the names of the ports of the integration bridge."""
        return frozenset(self._vsctl("list-ports", "br-int").split())

    def _make_folders(self) -> None:
        for folder in (self.folder, self.folder / "run", self.folder / "log"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in (self.folder / "run").iterdir():  # processes that were killed have left their sockets
            left.unlink()
        if self._base != str(self.folder):
            make_short_way(Path(self._base), self.folder)

    def _configure_switch(self) -> None:
        """Configure the bridges and this host in Open vSwitch, and remove the ports of guests that have ended."""
        ids = {
            "system-id": self.host,
            "hostname": self.host,
            "ovn-remote": self.southbound,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": _TUNNEL_ADDRESS,
            "ovn-bridge-datapath-type": "netdev",
            "ovn-bridge-mappings": f"{EXTERNAL}:br-ex",
            "ovn-cms-options": "enable-chassis-as-gw",
        }
        self._vsctl("--no-wait", "init")
        words = ["set", "Open_vSwitch", ".", *(f"external-ids:{name}={_quoted(value)}" for name, value in ids.items())]
        for bridge, mode in (("br-int", "secure"), ("br-ex", "standalone")):
            words += ["--", "--may-exist", "add-br", bridge]
            words += ["--", "set", "Bridge", bridge, "datapath_type=netdev", f"fail-mode={mode}"]
        words += ["--", "--may-exist", "add-port", "br-ex", "ext0"]
        self._vsctl("--no-wait", *words)
        for port in sorted(self._ports_of_guests() - self.network.devices()):
            self._vsctl("--no-wait", "--if-exists", "del-port", "br-int", port)

    def _ports_of_guests(self) -> frozenset[str]:
        return frozenset(port for port in self.ports() if port.startswith("tap"))

    def _wait_for_chassis(self) -> None:
        """Wait until Neutron can bind ports to this host. Raises: Unavailable."""
        words = ("--bare", "--columns=_uuid", "find", "chassis", f"hostname={_quoted(self.host)}")
        deadline = time.monotonic() + _READY_S
        while not run("ovn-sbctl", f"--db={self.southbound}", *words).strip():
            if time.monotonic() > deadline:
                raise Unavailable(f"OVN does not know this host after {_READY_S:g} s; see {self.folder / 'log'}")
            time.sleep(0.02)

    def _vsctl(self, *words: str) -> str:
        return run("ovs-vsctl", f"--db={self._switch}", "--timeout=20", *words)

    def _database(self, name: str) -> OvsProcess:
        socket = "db.sock" if name == "switch" else f"{name}.sock"  # db.sock is the default of ovs-vsctl
        command = f"ovsdb-server {self._base}/{name}.db --remote=punix:{self._run}/{socket}"
        return self._process(name, command, socket)

    def _process(self, name: str, command: str, socket: str | None = None, *, within: bool = False) -> OvsProcess:
        """Return a process that is ready when it listens on a socket in the folder: ``socket``, or its control socket.

        ``within``: whether it runs in the namespace of the guests.
        """
        words = [*command.split(" "), "-vconsole:warn", "-vsyslog:off"]
        if name != "controller":
            words.append(f"--unixctl={self._run}/{name}.ctl")
        return OvsProcess(
            f"ovn-{name}",
            self.network.within(*words) if within else words,
            f"{self._run}/{socket or f'{name}.ctl'}",
            self.folder / "log" / f"{name}.log",
            self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
        places = {f"{what}_RUNDIR": self._run for what in ("OVS", "OVN")}
        places |= {f"{what}_LOGDIR": f"{self._base}/log" for what in ("OVS", "OVN")}
        places |= {f"{what}_DBDIR": self._base for what in ("OVS", "OVN")}
        return {**kept, **places, "PATH": _PATH}


def _prepare(database: Path, schema: str) -> None:
    """Create a database, or bring it to the schema of the installed release."""
    if not database.exists():
        run("ovsdb-tool", "create", str(database), schema)
    elif run("ovsdb-tool", "needs-conversion", str(database), schema).strip() == "yes":
        run("ovsdb-tool", "convert", str(database), schema)


def _quoted(text: str) -> str:
    """Return a text in double quotes, as ovs-vsctl reads strings."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
