# SPDX-License-Identifier: Apache-2.0
"""A private OVN for the real guests of this machine, with one or several hosts (``ovn_host.py``).

::

    Neutron ── northbound ── northd ── southbound ──── controller of the first host
               database                database   └─ TLS ─ controllers of further hosts

Sockets are Unix sockets in folders of this cloud. Controllers of further hosts reach the southbound database as those
of other machines would, by TCP with TLS (``ovn_tls.py``). The databases are kept: after a restart, guests that kept
running are connected again.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kilonova.bundled_services import tunnel_end
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.host_network import EXTERNAL_NETWORK, HostNetwork, run
from kilonova.bundled_services.masquerade import Masquerade
from kilonova.bundled_services.ovn_host import OvnHost, RemoteDatabase
from kilonova.bundled_services.ovn_tls import NORTHBOUND, PORTS, SOUTHBOUND, DatabaseTls, Listener
from kilonova.bundled_services.ovs_folder import OvsFolder
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.program_path import PATH
from kilonova.bundled_services.settings import OvnDatabases
from kilonova.bundled_services.tunnel_end import TunnelEnd
from kilonova.errors import ConfigurationError

_PROGRAMS = ("ip", "ethtool", "ovsdb-server", "ovs-vswitchd", "ovn-northd", "ovn-controller")
_TUN = Path("/dev/net/tun")


def why_impossible(*, is_root: bool, path: str = PATH, tun: Path = _TUN) -> str | None:
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
    """OVN of a cloud, with Open vSwitch on each host. Start it from the main thread: it dies when the thread exits.

    ``folder``: data folder of the cloud. ``names``: names of the hosts; the first one is the gateway to the external
    network. ``address``: an address of this machine at which the databases listen, too. ``why_isolated``: after the
    start, the reason if guests reach no networks beyond this machine, else None.
    """

    def __init__(self, folder: Path, *names: str, address: str | None = None) -> None:
        self._folder = OvsFolder(folder.absolute() / "ovn")
        self._databases = (self._folder.database("northbound"), self._folder.database("southbound"))
        databases = f"--ovnnb-db={self.databases.northbound} --ovnsb-db={self.databases.southbound}"
        self._address = address
        self._port = free_port()
        self._northd = self._folder.process("northd", f"ovn-northd {databases}")
        self.hosts = tuple(self._host(folder, name, number, len(names)) for number, name in enumerate(names))
        external = self.hosts[0].network.external
        self._masquerade = Masquerade(external, EXTERNAL_NETWORK, self._folder.path / "uplinks")
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
        self.why_isolated = self._masquerade.start()
        tunnel_end.connect([host.network for host in self.hosts])
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

    def stop(self) -> None:
        """Stop all processes, and remove the namespaces in which no guests run."""
        self._masquerade.stop()
        for host in reversed(self.hosts):
            host.stop()
        for process in (self._northd, *self._databases):
            process.stop()
        self._folder.close()

    def _host(self, folder: Path, name: str, number: int, count: int) -> OvnHost:
        network = HostNetwork(folder, name, number)
        own = self._folder if number == 0 else OvsFolder(self._folder.path / "hosts" / name, f" of {name}")
        tunnel = TunnelEnd(network, number, count) if count > 1 else None
        remote = None
        if number > 0:
            files = Certificate(Path(self._folder.base) / "tls" / SOUTHBOUND, name)
            remote = RemoteDatabase(Listener(network.machine_address, self._port).target, files)
        return OvnHost(name, own, network, self.databases, tunnel, remote)
