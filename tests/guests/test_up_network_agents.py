# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --hypervisor libvirt --networks`` with two hosts, each with an agent process, over RabbitMQ.

The tests are in the order of the life of one cloud. The user data of a guest try to read the metadata of the other one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_network import HostNetwork, run
from support.external_network import external_network
from support.network_guests import BOOT_S, end_guests, namespaces, said
from support.ovsdb_clients import ask
from support.samples import IS_WHOLE
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.skipif(not IS_WHOLE, reason="takes two minutes; make guests-whole runs it"),
]
#: Reads the own metadata, then tries to be the guest with the address {other}. Each line has a word and the answer.
_PROBES = """\
#!/bin/sh
exec >/dev/console 2>&1
say() {{ echo "probe: $1 $(shift; "$@" 2>&1 | tail -n 1)."; }}
at=http://169.254.169.254 id=latest/meta-data/instance-id
say reach sh -c "ping -c 1 -W 5 {other} >/dev/null && echo yes"
say large sh -c "ping -c 1 -W 5 -s 1400 {other} >/dev/null && echo yes"
say own wget -qO- $at/$id
say six wget -qO- "http://[fe80::a9fe:a9fe%eth0]/$id"
say forwarded wget -qO- --header "X-Forwarded-For: {other}" --header "X-Kilonova-Address: {other}" $at/$id
say instance wget -qO- --header "X-Instance-ID: {uuid}" --header "X-Tenant-ID: {project}" $at/$id
say post wget -qO- --post-data c2VjcmV0 $at/openstack/latest/password
say again wget -qO- --post-data b3RoZXI= $at/openstack/latest/password
say password wget -qO- $at/openstack/latest/password
ip address add {other}/32 dev eth0
ip route replace 169.254.169.254 dev eth0 src {other}
say spoofed wget -T 3 -qO- $at/$id
say end echo
"""


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    folder = tmp_path_factory.mktemp("networks") / "data"
    supervisor = Supervisor(
        folder, arguments=("--hypervisor", "libvirt", "--networks", "--libvirt-hosts", "2", "--agents", "2")
    )
    with external_network():
        yield supervisor.start().until_ready()
        supervisor.stop()
        end_guests(folder)


@pytest.fixture(scope="module")
def stock(supervisor: Supervisor) -> StockCloud:
    return StockCloud(supervisor)


def number_of(stock: StockCloud, server: str) -> str:
    """Return EC2's id of a server."""
    return "i-" + stock.show("server", "show", server)["OS-EXT-SRV-ATTR:instance_name"].rpartition("-")[2]


@pytest.fixture(scope="module")
def servers(stock: StockCloud, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two servers on two hosts: name → IPv4 address. The second one probes the metadata service."""
    hosts = [each["Host"] for each in stock.show("compute", "service", "list", "--service", "nova-compute")]
    assert len(hosts) == 2
    stock.do("flavor", "create", "--ram", "96", "--disk", "1", "net")
    create = ("--os-compute-api-version", "2.74", "server", "create", "--flavor", "net", "--image", "tiny", "--wait")
    stock.do(*create, "--host", hosts[0], "first")
    first = stock.show("server", "show", "first")
    address = first["addresses"]["private"][0]
    script = tmp_path_factory.mktemp("probes") / "script"
    script.write_text(_PROBES.format(other=address, uuid=first["id"], project=first["project_id"]))
    stock.do(*create, "--host", hosts[1], "--user-data", str(script), "second")
    return {name: stock.show("server", "show", name)["addresses"]["private"][0] for name in ("first", "second")}


def probed(stock: StockCloud) -> dict[str, str]:
    wait_until(lambda: said(stock, "second", "probe: end"), "the probes to end", at_most_s=BOOT_S)
    return dict(said(stock, "second", r"probe: (\w+) (.*)\."))


def test_the_second_host_reaches_the_network_databases_by_tls(
    supervisor: Supervisor, stock: StockCloud, servers: dict[str, str]
) -> None:
    del servers
    second = stock.show("server", "show", "second")["OS-EXT-SRV-ATTR:host"]
    switch = f"unix:{supervisor.folder}/ovn/hosts/{second}/run/db.sock"
    remote = run("ovs-vsctl", f"--db={switch}", "get", "Open_vSwitch", ".", "external_ids:ovn-remote").strip('"\n')
    scheme, address, port = remote.split(":")
    assert scheme == "ssl"
    folder = supervisor.folder / "ovn" / "tls" / "southbound"
    assert ask(address, int(port), "list_dbs", certificate=None) is None
    assert "OVN_Southbound" in ask(address, int(port), "list_dbs", certificate=Certificate(folder, second))["result"]


def test_guests_of_two_hosts_reach_each_other(stock: StockCloud, servers: dict[str, str]) -> None:
    assert servers["first"] != servers["second"]
    probes = probed(stock)
    assert (probes["reach"], probes["large"]) == ("yes", "yes")


def test_a_guest_reads_its_own_metadata_and_no_others(stock: StockCloud, servers: dict[str, str]) -> None:
    del servers
    probes = probed(stock)
    own = number_of(stock, "second")
    assert own != number_of(stock, "first")
    assert {name: probes[name] for name in ("own", "six", "forwarded", "instance")} == dict.fromkeys(
        ("own", "six", "forwarded", "instance"), own
    )
    assert "409" in probes["again"]
    assert probes["password"] == "c2VjcmV0"
    assert not re.search(r"i-\w+", probes["spoofed"])
    assert stock.nova("get-password", "second").strip() == "c2VjcmV0"


def test_nothing_is_left_when_the_guests_are_stopped(supervisor: Supervisor, stock: StockCloud) -> None:
    for name in ("first", "second"):
        stock.do("server", "delete", "--wait", name)
    supervisor.stop()
    wait_until(lambda: not namespaces(supervisor.folder), "the namespaces to be removed")
    digest = HostNetwork(supervisor.folder, "").consoles.removesuffix("c")
    wait_until(lambda: not list(Path("/sys/class/net").glob(f"{digest}*")), "the veth pairs to be removed")
