# SPDX-License-Identifier: Apache-2.0
"""Process of the metadata service of real guests: it listens in every network with a guest.

::

    guest ── br-int ── veth pair ── namespace of its network: Relay ── Unix socket ── agent of the host

The process has no connection to the control plane: the agent asks the control plane. The process follows OVN's
southbound database and the database of Open vSwitch; its only credentials are the certificate of its host, if the host
has one. It stores nothing: a new process creates all namespaces again.
"""

import argparse
import logging
import os
import select
import socket
import time
from pathlib import Path

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_network import run, try_run
from kilonova.bundled_services.metadata_namespace import DEVICE_PREFIX, MetadataNamespace
from kilonova.bundled_services.metadata_networks import SOUTHBOUND, SWITCH, MetadataNetwork, networks_of
from kilonova.bundled_services.metadata_relay import MOST_POSTED, HostAgent, Relay
from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovsdb_client import OvsdbClient
from kilonova.bundled_services.settings import MetadataSettings, load_metadata
from kilonova.errors import KilonovaError
from kilonova.server.limits import KIB, Limits
from kilonova.server.server import Server

LOG = logging.getLogger(__name__)
_THREADS = 2
_LIMITS = Limits(head=8 * KIB, body=MOST_POSTED, connections=64, head_s=5.0, idle_s=15.0, write_s=15.0, stop_s=0.5)
_RETRY_S = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve metadata to the guests of `kilonova up`.")
    parser.add_argument("--settings", type=Path, required=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    MetadataService(load_metadata(parser.parse_args().settings)).run()


class MetadataService:
    """Keeps a MetadataNamespace, and an HTTP server that listens there, for each network with guests on this host."""

    def __init__(self, settings: MetadataSettings) -> None:
        self._settings = settings
        self._agent = HostAgent(settings.agent)
        files = settings.certificate
        certificate = None if files is None else Certificate(Path(files[0]), files[1])
        self._southbound = OvnConnection(settings.southbound, certificate)
        self._vsctl = ("ovs-vsctl", f"--db={settings.switch}", "--timeout=20")
        self._namespaces: dict[str, tuple[MetadataNamespace, Server]] = {}

    def run(self) -> None:
        """Serve until the process is killed."""
        with socket.socket(socket.AF_UNIX) as control:  # the control socket listens when the process is ready
            path = Path(self._settings.control)
            path.unlink(missing_ok=True)
            control.bind(str(path))
            self._remove_leftovers()
            control.listen()
            while True:
                try:
                    self._follow(control)
                except KilonovaError as error:
                    LOG.warning("%s; trying again", error)
                    time.sleep(_RETRY_S)

    def _remove_leftovers(self) -> None:
        """Remove the Open vSwitch ports of an earlier metadata process; their devices disappeared with that process."""
        for port in run(*self._vsctl, "list-ports", "br-int").split():
            if port.startswith(DEVICE_PREFIX):
                try_run(*self._vsctl, "--if-exists", "del-port", "br-int", port)

    def _follow(self, control: socket.socket) -> None:
        """Serve the networks until a database stops answering. Raises: Unavailable."""
        south = OvsdbClient(self._southbound, "OVN_Southbound")
        try:
            switch = OvsdbClient(OvnConnection(self._settings.switch), "Open_vSwitch")
            try:
                south.watch(_without_ids(SOUTHBOUND))
                switch.watch(SWITCH)
                has_failed = not self._adapt(south, switch)
                sources: list[OvsdbClient | socket.socket] = [south, switch, control]
                while True:
                    ready, _, _ = select.select(sources, [], [], _RETRY_S if has_failed else None)
                    if control in ready:
                        control.accept()[0].close()
                    changes = [client.changed() for client in (south, switch) if client in ready]
                    if any(changes) or has_failed:
                        has_failed = not self._adapt(south, switch)
            finally:
                switch.close()
        finally:
            south.close()

    def _adapt(self, south: OvsdbClient, switch: OvsdbClient) -> bool:
        """Remove the namespaces of changed and removed networks, then create missing namespaces.

        Return whether every network has its namespace now. Raises: Unavailable.
        """
        datapaths, ports = (south.read(table, columns) for table, columns in SOUTHBOUND.items())
        networks = networks_of(datapaths, ports, switch.read("Interface", SWITCH["Interface"]))
        wanted = {network.id: network for network in networks}
        for known, (namespace, server) in list(self._namespaces.items()):
            if wanted.get(known) != namespace.network:
                del self._namespaces[known]
                server.stop()
                namespace.close()
        done = True
        for network in networks:
            if network.id not in self._namespaces:
                done = self._serve(network) and done
        return done

    def _serve(self, network: MetadataNetwork) -> bool:
        try:
            namespace = MetadataNamespace(network, self._settings.namespace, self._vsctl)
        except (KilonovaError, OSError) as error:
            LOG.warning("The metadata service of network %s cannot be started: %s", network.id, error)
            return False
        relay = Relay(self._agent, network.id, namespace.mac_of)
        server = Server(relay, namespace.listeners[0], _LIMITS, _THREADS)
        server.start()
        server.accept_also_from(namespace.listeners[1:])
        self._namespaces[network.id] = namespace, server
        LOG.info("Metadata are served in network %s", network.id)
        return True


def _without_ids(tables: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the tables without the column ``_uuid``, which OVSDB cannot watch."""
    return {table: tuple(column for column in columns if column != "_uuid") for table, columns in tables.items()}


if __name__ == "__main__":
    os.umask(0o077)
    main()
