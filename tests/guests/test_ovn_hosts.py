# SPDX-License-Identifier: Apache-2.0
"""Several hosts of one machine, each with an Open vSwitch of its own: stations on them, and a crash."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.certificate_authority import CertificateAuthority
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.ovn_tls import DatabaseTls, Listener
from kilonova.errors import ConfigurationError
from support.external_network import external_network
from support.ovn_cloud import OvnCloud, run_pid
from support.ovsdb_clients import ask
from support.waiting import wait_until

HOSTS = ("metal", "metal-2", "metal-3")
PORTS = {f"port{number}": (f"fa:16:3e:00:02:0{number}", f"10.2.0.1{number}") for number in range(3)}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OvnCloud]:
    with external_network():
        made = OvnCloud(tmp_path_factory.mktemp("ovn"), *HOSTS)
        made.ovn.start()
        made.switch("net", **{name: f"{mac} {address}" for name, (mac, address) in PORTS.items()})
        yield made
        made.ovn.stop()


def reached(cloud: OvnCloud) -> None:
    """Connect a station to each host, and wait until all reach each other."""
    stations = [
        cloud.station(f"st{number}", name, mac, f"{address}/24", number)
        for number, (name, (mac, address)) in enumerate(PORTS.items())
    ]
    try:
        for number, station in enumerate(stations):
            others = [address for other, (_, address) in enumerate(PORTS.values()) if other != number]
            for address in others:
                wait_until(lambda s=station, a=address: s.reaches(a), "the stations to be connected")
    finally:
        for station in stations:
            station.remove()


def test_stations_of_all_hosts_reach_each_other_also_after_a_crash(cloud: OvnCloud) -> None:
    reached(cloud)
    vswitchd = next(process for process in cloud.ovn.hosts[0].processes if "vswitchd" in process.name)
    os.kill(run_pid(vswitchd), signal.SIGKILL)
    wait_until(vswitchd.ended, "the process to end")
    vswitchd.restart()  # the bridge has its address for tunnels again as soon as the process is ready
    wait_until(vswitchd.answers, "the process to be ready")
    reached(cloud)


def southbound_port(cloud: OvnCloud) -> int:
    """Return the port at which the southbound database listens for the further hosts."""
    remote = cloud.vsctl("get", "Open_vSwitch", ".", "external_ids:ovn-remote", host=1).strip().strip('"')
    assert remote.startswith(f"ssl:{cloud.ovn.hosts[1].network.machine_address}:")
    return int(remote.rpartition(":")[2])


def certificate_of(cloud: OvnCloud, name: str, database: str = "southbound") -> Certificate:
    return Certificate(Path(cloud.ovn.databases.southbound.removeprefix("unix:")).parents[1] / "tls" / database, name)


def test_further_hosts_reach_the_southbound_database_by_tls(cloud: OvnCloud) -> None:
    port = southbound_port(cloud)
    first = cloud.vsctl("get", "Open_vSwitch", ".", "external_ids:ovn-remote")
    assert "unix:" in first
    listening = run("ss", "-Hltn", f"sport = :{port}").split("\n")
    addresses = {line.split()[3].rpartition(":")[0] for line in listening if line}
    assert addresses == {host.network.machine_address for host in cloud.ovn.hosts[1:]}
    chassis = run("ovn-sbctl", f"--db={cloud.ovn.databases.southbound}", "--bare", "--columns=name", "list", "chassis")
    assert set(chassis.split()) == set(HOSTS)


def test_clients_without_a_certificate_get_nothing(cloud: OvnCloud, tmp_path: Path) -> None:
    port, other = southbound_port(cloud), CertificateAuthority(tmp_path, "OVN southbound").certify("metal-2")
    stranger = CertificateAuthority(tmp_path / "north", "northbound").certify("client")
    for host in cloud.ovn.hosts[1:]:
        address = host.network.machine_address
        assert ask(address, port, "list_dbs", certificate=None) is None
        assert ask(address, port, "list_dbs", certificate=None, tls=False) is None
        assert ask(address, port, "list_dbs", certificate=other) is None
        assert ask(address, port, "list_dbs", certificate=stranger) is None
        found = ask(address, port, "list_dbs", certificate=certificate_of(cloud, "metal-2"))
        assert "OVN_Southbound" in found["result"]


def test_a_host_changes_its_own_records_only(cloud: OvnCloud) -> None:
    address, port = cloud.ovn.hosts[1].network.machine_address, southbound_port(cloud)
    of_host = certificate_of(cloud, "metal-2")

    def change(chassis: str) -> str:
        operation = {
            "op": "update",
            "table": "Chassis",
            "where": [["name", "==", chassis]],
            "row": {"nb_cfg": 0},
        }
        answer = ask(address, port, "transact", "OVN_Southbound", operation, certificate=of_host)
        return str(answer["result"])

    assert "permission error" in change("metal")
    assert "permission error" in change("metal-3")
    assert "permission error" not in change("metal-2")


def test_an_operator_can_reach_both_databases_at_an_address_of_its_own(cloud: OvnCloud) -> None:
    address, databases = "127.0.0.77", {"northbound": "OVN_Northbound", "southbound": "OVN_Southbound"}
    folder = Path(certificate_of(cloud, "client").folder.parents[1])
    for name, schema in databases.items():
        connection = getattr(cloud.ovn.databases, name)
        tls, port = DatabaseTls(folder, name, connection), free_port()
        client = tls.certify("client")
        tls.listen([Listener(address, port)])
        assert schema in ask(address, port, "list_dbs", certificate=client)["result"]
        assert ask(address, port, "list_dbs", certificate=None) is None
        host = certificate_of(cloud, "metal-2")
        assert (ask(address, port, "list_dbs", certificate=host) is None) == (name == "northbound")
        shown = run(
            {"northbound": "ovn-nbctl", "southbound": "ovn-sbctl"}[name],
            *(f"--db=ssl:{address}:{port}", "--private-key", str(client.key), "--certificate", str(client.certificate)),
            *("--ca-cert", str(client.authority), "show"),
        )
        assert "net" in shown or "metal" in shown
        tls.listen([])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, port), timeout=1)
    with pytest.raises(ConfigurationError, match=r"cannot listen on 192\.0\.2\.1"):
        DatabaseTls(folder, "northbound", cloud.ovn.databases.northbound).listen([Listener("192.0.2.1", free_port())])


def test_only_the_first_host_is_a_gateway(cloud: OvnCloud) -> None:
    assert "ext0" in cloud.ovn.hosts[0].network.devices()
    for host in cloud.ovn.hosts[1:]:
        assert "ext0" not in host.network.devices()


def test_a_stop_leaves_nothing(cloud: OvnCloud) -> None:
    cloud.ovn.stop()
    devices = [Path("/sys/class/net", host.network.consoles) for host in cloud.ovn.hosts]
    wait_until(lambda: not any(device.exists() for device in devices), "the veth pairs to be removed")
    assert not any(host.network.file.exists() for host in cloud.ovn.hosts)
