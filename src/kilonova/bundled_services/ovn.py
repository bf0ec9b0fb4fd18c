# SPDX-License-Identifier: Apache-2.0
"""A private OVN for the real guests of this machine, with one or several hosts (``ovn_host.py``).

::

    Neutron ── northbound ── northd ── southbound ──── controller of the first host
               database                database   └─ TLS ─ controllers of further hosts, also of other machines

Sockets are Unix sockets in folders of this cloud. Controllers of further hosts reach the southbound database by TCP
with TLS (``ovn_tls.py``), as those of other machines do (``joined_host.py``). The databases are kept: after a restart,
guests that kept running are connected again.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kilonova.bundled_services import tunnel_end
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.cloud_address import CloudAddress
from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.host_network import EXTERNAL_NETWORK, HostNetwork, run
from kilonova.bundled_services.machine_tunnel import MachineTunnel
from kilonova.bundled_services.masquerade import Masquerade
from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovn_host import OvnHost
from kilonova.bundled_services.ovn_tls import NORTHBOUND, PORTS, SOUTHBOUND, DatabaseTls, Listener, is_reachable_by_ipv4
from kilonova.bundled_services.ovs_folder import OvsFolder
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.program_path import PATH
from kilonova.bundled_services.settings import OvnDatabases
from kilonova.bundled_services.tunnel_end import Tunnel, TunnelEnd
from kilonova.errors import ConfigurationError

_PROGRAMS = ("ip", "ethtool", "ovsdb-server", "ovs-vswitchd", "ovn-northd", "ovn-controller")
_TUN = Path("/dev/net/tun")


def why_impossible(
    what: str = "--networks with --hypervisor libvirt",
    programs: Sequence[str] = _PROGRAMS,
    *,
    is_root: bool,
    path: str = PATH,
    tun: Path = _TUN,
) -> str | None:
    """Return the reason why networks of real guests cannot work on this machine, as one sentence, or None.

    ``what``: needs the ``programs``. ``path``: folders of programs. ``tun``: device file that creates tap devices.
    """
    if not is_root:
        return f"{what} needs root, which may create network namespaces"
    if missing := [name for name in programs if shutil.which(name, path=path) is None]:
        return f"{what} needs {', '.join(missing)}; type: tools/ovn.sh"
    try:
        tun.open("rb").close()
    except OSError as error:
        return f"{what} needs {tun}, which cannot be opened: {error.strerror}"
    return None


class Ovn:
    """OVN of a cloud, with Open vSwitch on each host. Start it from the main thread: it dies when the thread exits.

    ``folder``: data folder of the cloud. ``names``: names of the hosts; the first one is the gateway to the external
    network. ``address``: an address of this machine at which the databases listen, too; if this machine has one host
    and the address is one that other machines can reach by IPv4, tunnels to hosts of other machines end there.
    ``why_isolated``: after the start, the reason if guests reach no networks beyond this machine, else None.
    """

    def __init__(self, folder: Path, *names: str, address: str | None = None) -> None:
        self._folder = OvsFolder(folder.absolute() / "ovn")
        self._databases = (self._folder.database("northbound"), self._folder.database("southbound"))
        databases = f"--ovnnb-db={self.databases.northbound} --ovnsb-db={self.databases.southbound}"
        self._address = address
        self._port = free_port()
        self._northd = self._folder.process("northd", f"ovn-northd {databases}")
        self._networks = tuple(HostNetwork(folder, name, number) for number, name in enumerate(names))
        gateway = self._networks[0]
        self._tunnels = MachineTunnel(gateway, address or "", self._folder.path / "tunnel_devices")
        self._has_tunnels = address is not None and len(names) == 1 and is_reachable_by_ipv4(address)
        self.hosts = tuple(self._host(name, network) for name, network in zip(names, self._networks, strict=True))
        note = self._folder.path / "uplinks"
        self._masquerade = Masquerade(gateway.external, EXTERNAL_NETWORK, note, tunnels=gateway.tunnels)
        self.why_isolated: str | None = None

    @property
    def databases(self) -> OvnDatabases:
        """Connections to the databases. Neutron writes the northbound one."""
        return OvnDatabases(*(f"unix:{self._folder.run}/{name}.sock" for name in ("northbound", "southbound")))

    @property
    def processes(self) -> Sequence[OvsProcess]:
        of_hosts = [process for host in self.hosts for process in host.processes]
        return (*self._databases, self._northd, *of_hosts)

    def start(self) -> None:
        """Start all processes and wait until OVN knows all hosts. Raises: ConfigurationError, Unavailable."""
        if reason := why_impossible(is_root=os.geteuid() == 0):
            raise ConfigurationError(reason)
        for folder in {self._folder, *(host.folder for host in self.hosts)}:
            folder.make()
        for host in self.hosts:
            host.network.make()
        self._tunnels.stop()  # a killed process may have left them; the masquerade must see the devices as they were
        self.why_isolated = self._masquerade.start()
        if self._has_tunnels:
            self._tunnels.start()
        tunnel_end.connect(self._networks)
        self._folder.prepare("northbound", "southbound")
        for process in self._databases:
            process.start()
        for process in self._databases:
            process.wait()
        run("ovn-nbctl", f"--db={self.databases.northbound}", "init")
        run("ovn-sbctl", f"--db={self.databases.southbound}", "init")
        self._listen()
        self._northd.start()
        for host in self.hosts:
            host.start()
        self._northd.wait()
        for host in self.hosts:
            host.wait()

    def _listen(self) -> None:
        """Let the databases listen for TLS connections where that is needed, and make the certificates of clients."""
        outside = [] if self._address is None else [self._address]
        further = [host.network.machine_address for host in self.hosts[1:]]
        connections = {NORTHBOUND: self.databases.northbound, SOUTHBOUND: self.databases.southbound}
        for name, connection in connections.items():
            tls = DatabaseTls(Path(self._folder.base), name, connection)
            listeners = [Listener(address, PORTS[name]) for address in outside]
            if name == SOUTHBOUND:
                listeners += [Listener(address, self._port) for address in further]
                for host in self.hosts[1:]:
                    tls.certify(host.name)
            if outside:
                tls.certify("client")
            tls.listen(listeners)
        self._note_address()

    def _note_address(self) -> None:
        """Note for ``kilonova compute certify`` where hosts of other machines reach this cloud."""
        noted = CloudAddress.of_cloud(self._folder.path.parent)
        if self._address is None:
            noted.remove()
        else:
            southbound = Listener(self._address, PORTS[SOUTHBOUND]).target
            noted.write(southbound, [host.name for host in self.hosts], tunnels=self._has_tunnels)

    def stop(self) -> None:
        """Stop all processes, and remove the namespaces in which no guests run."""
        self._tunnels.stop()
        self._masquerade.stop()
        for host in reversed(self.hosts):
            host.stop()
        for process in (self._northd, *self._databases):
            process.stop()
        self._folder.close()

    def _host(self, name: str, network: HostNetwork) -> OvnHost:
        number, count = self._networks.index(network), len(self._networks)
        if number == 0:
            others = self._tunnels if self._has_tunnels else None
            first: Tunnel | None = TunnelEnd(network, 0, count) if count > 1 else others
            return OvnHost(name, self._folder, network, OvnConnection(self.databases.southbound), first)
        files = Certificate(Path(self._folder.base) / "tls" / SOUTHBOUND, name)
        southbound = OvnConnection(Listener(network.machine_address, self._port).target, files)
        own = OvsFolder(self._folder.path / "hosts" / name, f" of {name}")
        return OvnHost(name, own, network, southbound, TunnelEnd(network, number, count))
