# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and the OVN controller of one host, in the network namespace of the host's guests.

::

    OVN's southbound database ── controller ── switch ── vswitchd    br-int with the ports of guests,
                                               database              br-ex with the external veth (first host),
                                                                     br-phy with tunnels to other hosts, if any

Packets are switched in user space, without any kernel module. A datapath in user space can send tunnelled packets only
through a bridge of its own, so br-phy has the host's address for tunnels. The first host is the gateway to the external
network. Its br-phy connects those of the other hosts.
"""

import time
from pathlib import Path

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.bundled_services.libvirtd import GuestNetwork
from kilonova.bundled_services.neutron_conf import EXTERNAL
from kilonova.bundled_services.ovs_folder import OvsFolder, quoted
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import MetadataSettings, OvnDatabases
from kilonova.bundled_services.tunnel_end import TunnelEnd
from kilonova.errors import Unavailable
from kilonova.records import dataclass

_READY_S = 30.0
#: One host needs no tunnels, but OVN needs an address for them.
_NO_TUNNEL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RemoteDatabase:
    """A database that a host reaches over TLS. ``target``: the connection. ``files``: of the host's certificate."""

    target: str
    files: Certificate

    @property
    def options(self) -> str:
        """The options of ovn-controller, with a blank before each."""
        files = self.files
        named = {"private-key": files.key, "certificate": files.certificate, "ca-cert": files.authority}
        return "".join(f" --{name}={path}" for name, path in named.items())


class OvnHost:
    """One host. ``name``: the name of the host, to which Neutron binds ports. ``folder``: for the host's processes.

    ``network``: the network namespace of the host's guests. ``databases``: connections to OVN's databases. ``tunnel``:
    the host's end of tunnels; None if there is no other host. ``remote``: how the controller reaches the southbound
    database; None: as this process does.
    """

    def __init__(
        self,
        name: str,
        folder: OvsFolder,
        network: HostNetwork,
        databases: OvnDatabases,
        tunnel: TunnelEnd | None,
        remote: RemoteDatabase | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.network = network
        self._northbound, self._southbound = databases.northbound, databases.southbound
        self._remote = self._southbound if remote is None else remote.target
        self._tunnel = tunnel
        within = network.within()
        self._database = folder.database("switch")
        vswitchd = folder.process("vswitchd", f"ovs-vswitchd {self._switch}", within=within)
        # ovn-controller has no option for the path of its control socket
        tls = "" if remote is None else remote.options
        controller = folder.process(
            "controller", f"ovn-controller {self._switch}{tls}", "ovn-controller.{pid}.ctl", within=within
        )
        if tunnel is not None:
            vswitchd.when_listening = tunnel.take_address
        self.processes: tuple[OvsProcess, ...] = (self._database, vswitchd, controller)

    @property
    def _switch(self) -> str:
        return f"unix:{self.folder.run}/db.sock"

    @property
    def guests(self) -> GuestNetwork:
        """The network namespace for libvirtd."""
        return GuestNetwork(self.network.file, Path(self.folder.run))

    @property
    def agent(self) -> str:
        """Path of the socket at which the host's agent answers the metadata service."""
        return f"{self.folder.run}/agent.sock"

    def metadata_settings(self) -> MetadataSettings:
        """Return the settings of the metadata service."""
        return MetadataSettings(
            agent=self.agent,
            northbound=self._northbound,
            switch=self._switch,
            namespace=self.network.name,
            control=f"{self.folder.run}/metadata.ctl",
        )

    def start(self) -> None:
        """Start the processes without waiting for all of them. The namespace exists. Raises: Unavailable, OSError."""
        self.folder.prepare("switch")
        self._database.start()
        self._database.wait()
        self.configure()
        for process in self.processes[1:]:
            process.start()

    def wait(self) -> None:
        """Wait until Neutron can bind ports to this host. Raises: Unavailable."""
        for process in self.processes:
            process.wait()
        words = ("--bare", "--columns=_uuid", "find", "chassis", f"hostname={quoted(self.name)}")
        deadline = time.monotonic() + _READY_S
        while not run("ovn-sbctl", f"--db={self._southbound}", *words).strip():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"OVN does not know host {self.name} after {_READY_S:g} s; see {self.folder.path / 'log'}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the processes, and remove the namespace unless guests run in it."""
        for process in reversed(self.processes):
            process.stop()
        if not self.network.is_in_use():
            self.network.remove()
        self.folder.close()

    def ports(self) -> frozenset[str]:
        """Return the names of the ports of the integration bridge."""
        return frozenset(self._vsctl("list-ports", "br-int").split())

    def configure(self) -> None:
        """Describe the bridges and this host to Open vSwitch, and forget ports of guests that have ended."""
        ids = {
            "system-id": self.name,
            "hostname": self.name,
            "ovn-remote": self._remote,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": _NO_TUNNEL if self._tunnel is None else self._tunnel.address,
            "ovn-bridge-datapath-type": "netdev",
        }
        bridges: dict[str, tuple[str, tuple[str, ...]]] = {"br-int": ("secure", ())}
        if self.network.is_gateway:
            ids |= {"ovn-bridge-mappings": f"{EXTERNAL}:br-ex", "ovn-cms-options": "enable-chassis-as-gw"}
            bridges["br-ex"] = ("standalone", ("ext0",))
        if self._tunnel is not None:
            bridges[self._tunnel.BRIDGE] = ("standalone", self._tunnel.devices)
        self._vsctl("--no-wait", "init")
        words = ["set", "Open_vSwitch", ".", *(f"external-ids:{name}={quoted(value)}" for name, value in ids.items())]
        for bridge, (mode, devices) in bridges.items():
            words += ["--", "--may-exist", "add-br", bridge]
            words += ["--", "set", "Bridge", bridge, "datapath_type=netdev", f"fail-mode={mode}"]
            for device in devices:
                words += ["--", "--may-exist", "add-port", bridge, device]
        self._vsctl("--no-wait", *words)
        for port in sorted(self._ports_of_guests() - self.network.devices()):
            self._vsctl("--no-wait", "--if-exists", "del-port", "br-int", port)

    def _ports_of_guests(self) -> frozenset[str]:
        return frozenset(port for port in self.ports() if port.startswith("tap"))

    def _vsctl(self, *words: str) -> str:
        return run("ovs-vsctl", f"--db={self._switch}", "--timeout=20", *words)
