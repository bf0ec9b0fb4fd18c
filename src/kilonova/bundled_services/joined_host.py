# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and the OVN controller of this machine's host, for a cloud on another machine.

::

    this machine                                               machine of the cloud
    controller ── TLS, with the certificate of the host ─────  southbound database
    br-phy     ── tunnels, UDP port 6081 (machine_tunnel.py) ─ br-phy
"""

import os
from collections.abc import Sequence
from pathlib import Path

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_bundle import HostBundle
from kilonova.bundled_services.host_network import HostNetwork
from kilonova.bundled_services.machine_tunnel import MachineTunnel
from kilonova.bundled_services.ovn import why_impossible
from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovn_host import OvnHost
from kilonova.bundled_services.ovn_tls import SOUTHBOUND
from kilonova.bundled_services.ovs_folder import OvsFolder
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.errors import ConfigurationError

_PROGRAMS = ("ip", "ethtool", "nft", "ovsdb-server", "ovs-vswitchd", "ovn-controller")
#: The first host of a cloud, which is number 0, is the gateway.
_NO_GATEWAY = 1


def why_no_host(*, is_root: bool) -> str | None:
    """Return the reason why this machine cannot have a host of another machine's cloud, as one sentence, or None."""
    return why_impossible("kilonova compute join", _PROGRAMS, is_root=is_root)


class JoinedHost:
    """The host of a bundle. Start it from the main thread: it dies when the thread exits.

    ``folder``: data folder of the host. ``address``: IPv4 address of this machine at which its tunnels end.
    """

    def __init__(self, folder: Path, bundle: HostBundle, address: str) -> None:
        self._bundle = bundle
        self._folder = OvsFolder(folder.absolute() / "ovn")
        network = HostNetwork(folder, bundle.host, _NO_GATEWAY)
        note = self._folder.path / "tunnel_devices"
        self._tunnels = MachineTunnel(network, address, note, besides=[network.consoles])
        self._tls = Path(self._folder.base) / "tls" / SOUTHBOUND
        southbound = OvnConnection(bundle.southbound, Certificate(self._tls, bundle.host))
        self.host = OvnHost(bundle.host, self._folder, network, southbound, self._tunnels, is_joined=True)

    @property
    def processes(self) -> Sequence[OvsProcess]:
        return self.host.processes

    def start(self) -> None:
        """Start all processes and wait until the cloud's OVN knows the host.

        Raises: ConfigurationError, Unavailable, OSError.
        """
        if reason := why_no_host(is_root=os.geteuid() == 0):
            raise ConfigurationError(reason)
        self._folder.make()
        self._bundle.copy_to(self._tls)
        self.host.is_known()  # raises if the database cannot be reached, or refuses the certificate
        self.host.network.make()
        self._tunnels.start()
        self.host.start()
        self.host.wait()

    def stop(self) -> None:
        """Stop all processes, and remove the namespace unless guests run in it."""
        self._tunnels.stop()
        self.host.stop()
