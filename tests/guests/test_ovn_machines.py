# SPDX-License-Identifier: Apache-2.0
"""A host of another machine, which has no other way to the cloud than TLS and tunnels between two addresses.

The tests are in the order of the life of one cloud.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.bundled_services.certificate_authority import CertificateAuthority
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_bundle import HostBundle, make_bundle, read_bundle
from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.ovn import Ovn
from kilonova.bundled_services.ovn_tls import PORTS, SOUTHBOUND
from kilonova.errors import ConfigurationError
from support.external_network import external_network
from support.other_machine import HERE, OtherMachine
from support.ovn_cloud import OvnCloud, Station
from support.ovsdb_clients import ask
from support.samples import IS_WHOLE
from support.waiting import wait_until

MACS = ("fa:16:3e:00:03:01", "fa:16:3e:00:03:02")
ADDRESSES = ("10.3.0.11", "10.3.0.12")
#: What Neutron notes at ports: of a guest, and of the metadata service.
_GUEST, _METADATA = 'external_ids:"neutron:device_id"=guest', 'external_ids:"neutron:cidrs"="10.3.0.2/24"'


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMachine]:
    made = OtherMachine(tmp_path_factory.mktemp("machine"))
    with external_network():
        made.connect()
        yield made
        made.remove()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder of the cloud."""
    return tmp_path_factory.mktemp("cloud")


@pytest.fixture(scope="module")
def cloud(machine: OtherMachine, folder: Path) -> Iterator[OvnCloud]:
    del machine  # connects the address at which the cloud listens
    made = OvnCloud(folder, "metal", address=HERE)
    made.ovn.start()
    made.switch("neutron-net", **{name: f"{mac} {ip}" for name, mac, ip in zip("ab", MACS, ADDRESSES, strict=True)})
    made.switch("neutron-net", own="fa:16:3e:00:03:09 10.3.0.2")
    northbound = ("ovn-nbctl", f"--db={made.ovn.databases.northbound}")
    run(*northbound, "lsp-set-type", "own", "localport", "--", "set", "Logical_Switch_Port", "own", _METADATA)
    run(*northbound, "set", "Logical_Switch_Port", "b", _GUEST)
    yield made
    made.ovn.stop()


@pytest.fixture(scope="module")
def bundle(cloud: OvnCloud, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> HostBundle:
    del cloud
    target = tmp_path_factory.mktemp("bundles") / "metal-2.bundle"
    words = ("compute", "certify", "metal-2", "--data", str(folder), "--output", str(target))
    said = subprocess.run([sys.executable, "-m", "kilonova", *words], check=True, capture_output=True, text=True)
    assert f"ssl:{HERE}:6642" in said.stdout
    return read_bundle(target)


@pytest.fixture(scope="module")
def stations(cloud: OvnCloud, machine: OtherMachine, bundle: HostBundle) -> Iterator[Station]:
    """The station on this machine. The other one is on the other machine."""
    machine.join(bundle.folder)
    machine.station("b", MACS[1], ADDRESSES[1])
    made = cloud.station("sta", "a", MACS[0], f"{ADDRESSES[0]}/24")
    try:
        yield made
    finally:
        made.remove()
        machine.stop()


def chassis_of(cloud: OvnCloud) -> set[str]:
    words = ("--bare", "--columns=name", "list", "chassis")
    return set(run("ovn-sbctl", f"--db={cloud.ovn.databases.southbound}", *words).split())


def test_a_host_without_a_certificate_of_the_cloud_is_refused(
    cloud: OvnCloud, machine: OtherMachine, bundle: HostBundle, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other", "OVN southbound").certify("metal-2")
    bundle.copy_to(tmp_path / "forged")
    forged = Certificate(tmp_path / "forged", "metal-2")
    (forged.folder / "host.json").write_bytes((bundle.folder / "host.json").read_bytes())
    forged.key.write_bytes(other.key.read_bytes())
    forged.certificate.write_bytes(other.certificate.read_bytes())
    command = machine.command(forged.folder)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "the database OVN_Southbound is gone" in done.stderr
    assert ask(HERE, PORTS[SOUTHBOUND], "list_dbs", certificate=None) is None
    assert ask(HERE, PORTS[SOUTHBOUND], "list_dbs", certificate=other) is None
    assert chassis_of(cloud) == {"metal"}


def test_stations_of_two_machines_reach_each_other(stations: Station, machine: OtherMachine, cloud: OvnCloud) -> None:
    wait_until(lambda: machine.reaches(ADDRESSES[0]), "the first station to be reached")
    wait_until(lambda: stations.reaches(ADDRESSES[1]), "the second station to be reached")
    ping = ("ping", "-c", "2", "-W", "5", "-M", "do", "-s", "1414", ADDRESSES[0])
    assert "2 received" in run(*machine.among_guests(), *ping)
    assert chassis_of(cloud) == {"metal", "metal-2"}


def test_the_other_machine_has_no_other_way_to_the_databases(stations: Station, machine: OtherMachine) -> None:
    del stations
    remote = machine.vsctl("get", "Open_vSwitch", ".", "external_ids:ovn-remote").strip().strip('"')
    assert remote == f"ssl:{HERE}:{PORTS[SOUTHBOUND]}"
    connections = machine.connections()
    assert {line.split()[3] for line in connections.splitlines()} == {f"{HERE}:{PORTS[SOUTHBOUND]}"}
    assert "ovn-controller" in connections
    tunnels = machine.vsctl("--bare", "--columns=options", "find", "Interface", "type=geneve")
    assert f"remote_ip={HERE}" in tunnels


def test_guests_of_the_other_machine_have_a_metadata_service(stations: Station, machine: OtherMachine) -> None:
    del stations
    within = machine.among_guests()
    run(*within, "ip", "route", "replace", "169.254.169.254", "dev", "station")
    # the host has no agent here, so the service answers that it has no answer
    wait_until(lambda: b"503" in answered(within), "the metadata service to answer")


def answered(within: tuple[str, ...]) -> bytes:
    """Return the first line of the answer of the metadata service."""
    script = (
        "import socket; s = socket.create_connection(('169.254.169.254', 80), 2); s.settimeout(5); "
        "s.sendall(b'GET /latest/meta-data/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); print(s.recv(99).split(b'\\r')[0])"
    )
    return subprocess.run([*within, sys.executable, "-c", script], check=False, capture_output=True).stdout


def test_tunnels_are_the_only_way_out_of_the_namespace_of_guests(stations: Station, machine: OtherMachine) -> None:
    del stations
    with socket.create_server((HERE, 0)) as server:
        words = f"import socket; socket.create_connection(('{HERE}', {server.getsockname()[1]}), timeout=1)"
        done = subprocess.run([*machine.among_guests(), sys.executable, "-c", words], check=False, capture_output=True)
        assert b"TimeoutError" in done.stderr or b"timed out" in done.stderr


def test_a_host_changes_its_own_records_and_the_binding_of_ports_only(stations: Station, bundle: HostBundle) -> None:
    del stations

    def is_allowed(operation: str, table: str, column: str, value: str, **row: Any) -> bool:
        words = {"op": operation, "table": table, "where": [[column, "==", value]], **({"row": row} if row else {})}
        certificate, port = bundle.certificate, PORTS[SOUTHBOUND]
        result = str(ask(HERE, port, "transact", "OVN_Southbound", words, certificate=certificate)["result"])
        assert ("permission error" in result) != ("count" in result), result
        return "count" in result

    assert is_allowed("update", "Chassis", "name", "metal-2", nb_cfg=0)
    assert not is_allowed("update", "Chassis", "name", "metal", nb_cfg=0)
    assert not is_allowed("delete", "Chassis", "name", "metal")
    assert not is_allowed("update", "Encap", "chassis_name", "metal", ip="192.0.2.9")
    # OVN does not know beforehand where a port will be, so any host may bind any port
    assert is_allowed("update", "Port_Binding", "logical_port", "a", virtual_parent="")
    assert not is_allowed("update", "Port_Binding", "logical_port", "a", mac="fa:16:3e:00:03:77 10.3.0.77")
    assert not is_allowed("delete", "Port_Binding", "logical_port", "a")
    assert not is_allowed("delete", "Logical_Flow", "pipeline", "ingress")
    assert not is_allowed("delete", "Connection", "target", f"pssl:{PORTS[SOUTHBOUND]}:{HERE}")


def test_a_host_is_connected_again_after_a_crash_of_the_database(
    stations: Station, machine: OtherMachine, cloud: OvnCloud
) -> None:
    del stations
    southbound = next(process for process in cloud.ovn.processes if process.name == "ovn-southbound")
    southbound.kill()
    wait_until(lambda: "ovn-controller" not in machine.connections(), "the connection to end")
    assert machine.reaches(ADDRESSES[0])
    southbound.restart()
    wait_until(lambda: "ovn-controller" in machine.connections(), "the controller to be connected", at_most_s=30)
    assert machine.reaches(ADDRESSES[0])


@pytest.mark.skipif(not IS_WHOLE, reason="takes ten seconds; make guests-whole runs it")
def test_a_host_that_was_killed_joins_again(stations: Station, machine: OtherMachine, bundle: HostBundle) -> None:
    guest = subprocess.Popen([*machine.among_guests(), "sleep", "600"])
    try:
        machine.kill()
        assert machine.rules()
        assert not stations.reaches(ADDRESSES[1])
        machine.join(bundle.folder)
        assert Path(f"/proc/{guest.pid}/ns/net").stat().st_ino == machine.namespace_of_guests()
        machine.station("b", MACS[1], ADDRESSES[1])
        wait_until(lambda: stations.reaches(ADDRESSES[1]), "the second station to be reached")
    finally:
        guest.kill()
        guest.wait()


def test_a_stop_leaves_nothing(stations: Station, machine: OtherMachine) -> None:
    del stations
    assert machine.rules()
    assert machine.stop().splitlines()[-1] == "stopped"
    assert machine.rules() == ""
    wait_until(lambda: machine.devices() == {"eth0", "lo"}, "the veth pairs to be removed")


def test_a_cloud_that_was_killed_leaves_no_tunnels_after_the_next_start(
    cloud: OvnCloud, folder: Path, stations: Station
) -> None:
    stations.remove()
    for process in cloud.ovn.processes:
        process.kill()
    assert f"daddr {HERE}" in run("nft", "list", "ruleset")
    again = Ovn(folder, "metal")
    again.start()
    try:
        assert HERE not in run("nft", "list", "ruleset")
        with pytest.raises(ConfigurationError, match="hosts of other machines cannot reach this cloud"):
            make_bundle(folder, "metal-2", folder / "bundle")
    finally:
        again.stop()
