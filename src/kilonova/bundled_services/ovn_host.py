# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and the OVN controller of one host, in the network namespace of the host's guests.

::

    OVN's southbound database ── controller ── switch ── vswitchd    br-int with the ports of guests,
                                               database              br-ex with the external veth (gateway),
                                                                     br-phy with tunnels to other hosts, if any

Packets are switched in user space, without any kernel module. A datapath in user space can send tunnelled packets only
through a bridge of its own, so br-phy has the host's address for tunnels. The first host of a cloud is the gateway to
the external network.
"""

import time
from pathlib import Path

from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.bundled_services.libvirtd import GuestNetwork
from kilonova.bundled_services.neutron_conf import EXTERNAL
from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovs_folder import OvsFolder, quoted
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.ovsdb_client import OvsdbClient
from kilonova.bundled_services.settings import MetadataSettings
from kilonova.bundled_services.tunnel_end import BRIDGE, Tunnel
from kilonova.errors import Unavailable

_READY_S = 30.0
#: One host needs no tunnels, but OVN needs an address for them.
_NO_TUNNEL = "127.0.0.1"


class OvnHost:
    """One host. ``name``: the name of the host, to which Neutron binds ports. ``folder``: for the host's processes.

    ``network``: the network namespace of the host's guests. ``southbound``: connection to OVN's southbound database.
    ``tunnel``: the host's end of tunnels; None if there is no other host. ``is_joined``: the database is on another
    machine, which only processes outside of the namespace can reach.
    """

    def __init__(
        self,
        name: str,
        folder: OvsFolder,
        network: HostNetwork,
        southbound: OvnConnection,
        tunnel: Tunnel | None,
        *,
        is_joined: bool = False,
    ) -> None:
        self.name = name
        self.folder = folder
        self.network = network
        self.southbound = southbound
        self._tunnel = tunnel
        within = network.within()
        self._database = folder.database("switch")
        vswitchd = folder.process("vswitchd", f"ovs-vswitchd {self._switch}", within=within)
        # ovn-controller has no option for the path of its control socket
        words = " ".join(("ovn-controller", self._switch, *southbound.options))
        controller = folder.process("controller", words, "ovn-controller.{pid}.ctl", within=() if is_joined else within)
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
        files = self.southbound.files
        return MetadataSettings(
            agent=self.agent,
            southbound=self.southbound.target,
            switch=self._switch,
            namespace=self.network.name,
            control=f"{self.folder.run}/metadata.ctl",
            certificate=None if files is None else (str(files.folder), files.name),
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
        deadline = time.monotonic() + _READY_S
        while not self.is_known():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"OVN does not know host {self.name} after {_READY_S:g} s; see {self.folder.path / 'log'}"
                )
            time.sleep(0.02)

    def is_known(self) -> bool:
        """Return whether OVN's southbound database has this host. Raises: Unavailable."""
        client = OvsdbClient(self.southbound, "OVN_Southbound")
        try:
            return any(row["hostname"] == self.name for row in client.read("Chassis", ("hostname",)))
        finally:
            client.close()

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
            "ovn-remote": self.southbound.target,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": _NO_TUNNEL if self._tunnel is None else self._tunnel.address,
            "ovn-bridge-datapath-type": "netdev",
        }
        bridges: dict[str, tuple[str, tuple[str, ...]]] = {"br-int": ("secure", ())}
        if self.network.is_gateway:
            ids |= {"ovn-bridge-mappings": f"{EXTERNAL}:br-ex", "ovn-cms-options": "enable-chassis-as-gw"}
            bridges["br-ex"] = ("standalone", ("ext0",))
        if self._tunnel is not None:
            bridges[BRIDGE] = ("standalone", tuple(self._tunnel.devices))
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
