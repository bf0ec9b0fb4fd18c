# SPDX-License-Identifier: Apache-2.0
"""`kilonova up --networks` with the stock client: networks, and starts with and without networks."""

import os
import signal
from collections.abc import Iterator

import pytest
import requests
from openstack.config.loader import OpenStackConfig
from openstack.connection import Connection

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until

pytestmark = pytest.mark.cloud
DEMO = "kilonova-demo"


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path_factory.mktemp("networks") / "data", arguments=("--hosts", "2", "--networks"))
    yield supervisor.start().until_ready()
    supervisor.stop()


@pytest.fixture
def stock(supervisor: Supervisor) -> StockCloud:
    return StockCloud(supervisor)


def catalogue(supervisor: Supervisor) -> set[str]:
    return {entry["type"] for entry in supervisor.token().json()["token"]["catalog"]}


def test_every_project_sees_both_first_networks(stock: StockCloud) -> None:
    for cloud in ("kilonova", "kilonova-demo"):
        assert {each["Name"] for each in stock.show("network", "list", cloud=cloud)} == {"private", "public"}
    (router,) = stock.show("router", "list")
    assert router["Name"] == "router"


def _fixed(stock: StockCloud, server: str) -> list[str]:
    """Return the IPv4 addresses of a server on the network ``private``, with floating ones."""
    return [each for each in stock.show("server", "show", server, cloud=DEMO)["addresses"]["private"] if "." in each]


def test_a_server_gets_and_loses_ports_and_groups(stock: StockCloud) -> None:
    stock.together(
        ("port", "create", "--network", "private", "mine"), ("security", "group", "create", "web"), cloud=DEMO
    )
    own = stock.show("port", "show", "mine", cloud=DEMO)
    created = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--security-group", "web", "--wait")
    stock.do(*created, "--port", "mine", "--network", "private", "web1", cloud=DEMO)
    first, second = _fixed(stock, "web1")
    assert first in {each["ip_address"] for each in own["fixed_ips"]}
    shown = stock.show("server", "show", "web1", cloud=DEMO)
    assert sorted(each["name"] for each in shown["security_groups"]) == ["default", "web"]
    assert [each["Name"] for each in stock.show("server", "list", "--ip", second, cloud=DEMO)] == ["web1"]
    stock.do("server", "remove", "port", "web1", "mine", cloud=DEMO)
    stock.do("server", "add", "network", "web1", "private", cloud=DEMO)
    stock.do("server", "remove", "security", "group", "web1", "web", cloud=DEMO)
    assert len(_fixed(stock, "web1")) == 2
    assert first not in _fixed(stock, "web1")
    assert "external network" in stock.refused(*created, "--network", "public", "web2")
    stock.do("server", "delete", "--wait", "web1", cloud=DEMO)
    assert [each["Name"] for each in stock.show("port", "list", "--network", "private", cloud=DEMO)] == ["mine"]
    stock.together(("port", "delete", "mine"), ("security", "group", "delete", "web"), cloud=DEMO)


def test_a_server_that_names_no_network_gets_addresses_of_both_versions_and_a_floating_one(stock: StockCloud) -> None:
    create = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait", "first")
    server = stock.show(*create, cloud=DEMO)
    four, six = sorted(server["addresses"]["private"], key=len)
    assert four.startswith("10.0.0.")
    assert six.startswith("fd")
    (port,) = stock.show("port", "list", "--device-id", server["id"])
    assert port["Status"] == "ACTIVE"
    floating = stock.show("floating", "ip", "create", "public", cloud=DEMO)["floating_ip_address"]
    stock.do("server", "add", "floating", "ip", "first", floating, cloud=DEMO)
    wait_until(lambda: floating in _fixed(stock, "first"), "the floating address to be shown", at_most_s=60)
    stock.do("server", "delete", "--wait", "first", cloud=DEMO)
    assert stock.show("port", "list", "--device-id", server["id"]) == []


def test_the_cloud_layer_of_the_sdk_gives_a_server_a_floating_address(supervisor: Supervisor) -> None:
    known = OpenStackConfig(config_files=[str(supervisor.folder / "clouds.yaml")], load_envvars=False)
    with Connection(config=known.get_one(DEMO)) as cloud:
        cloud.create_server("auto", image="tiny", flavor="m1.tiny", auto_ip=True, wait=True, timeout=60)
        server = cloud.get_server("auto")
        assert server.public_v4.startswith("172.24.4.")
        assert server.private_v4.startswith("10.0.0.")
        assert [each.floating_ip_address for each in cloud.list_floating_ips()] == [server.public_v4]
        cloud.delete_server("auto", wait=True, timeout=60, delete_ips=True)
        assert not cloud.list_floating_ips()


def test_a_neutron_that_is_killed_is_started_again(supervisor: Supervisor) -> None:
    os.kill(supervisor.descendant("bundled_services.neutron"), signal.SIGKILL)
    supervisor.next_line("starting it again")

    def answers() -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{supervisor.network_port}/", timeout=5).ok
        except requests.ConnectionError:
            return False

    wait_until(answers, "Neutron to answer again", at_most_s=120)


def test_networks_can_be_left_out_and_come_back(supervisor: Supervisor, stock: StockCloud) -> None:
    """Last test of the module: it restarts the cloud."""
    assert "network" in catalogue(supervisor)
    networks = stock.show("network", "list")
    supervisor.stop()
    supervisor.arguments = ("--hosts", "2")
    supervisor.start().until_ready()
    assert "network" not in catalogue(supervisor)
    stock.do("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--nic", "none", "--wait", "third")
    supervisor.stop()
    supervisor.arguments = ("--hosts", "2", "--networks")
    supervisor.start().until_ready()
    assert stock.show("network", "list") == networks
    assert not [line for line in supervisor.lines[-30:] if "creating the first networks" in line]
    stock.do("server", "delete", "--wait", "third")
