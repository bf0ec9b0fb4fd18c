# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --ovn-address`` with a host on a second machine, which has its agent, over a RabbitMQ of the operator.

The tests are in the order of the life of one cloud, and do what docs/networks.md says.
"""

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pytest

from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.messaging.rabbit.topology import control_user, definitions
from support.external_network import external_network
from support.network_guests import BOOT_S, end_guests, said
from support.other_machine import HERE, OtherMachine
from support.samples import IS_WHOLE
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.viewers import connect
from support.waiting import wait_until

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.skipif(not IS_WHOLE, reason="takes three minutes; make guests-whole runs it"),
]
_PROBES = """\
#!/bin/sh
exec >/dev/console 2>&1
say() {{ echo "probe: $1 $(shift; "$@" 2>&1 | tail -n 1)."; }}
say reach sh -c "ping -c 1 -W 5 {other} >/dev/null && echo yes"
say large sh -c "ping -c 1 -W 5 -s 1400 {other} >/dev/null && echo yes"
say own wget -qO- http://169.254.169.254/latest/meta-data/instance-id
say end echo
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMachine]:
    made = OtherMachine(tmp_path_factory.mktemp("machine") / "data")
    with external_network():
        made.connect()
        yield made
        end_guests(made.folder)
        made.remove()


@pytest.fixture(scope="module")
def broker(machine: OtherMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RabbitMQ, str]]:
    """The operator's RabbitMQ, which both machines reach, and its address."""
    del machine
    address = f"{HERE}:{free_port()}"
    users = [control_user("control", "control")]
    server = RabbitMQ(
        tmp_path_factory.mktemp("broker"), definitions("/", users, ()), settings=[f"listeners.tcp.both = {address}"]
    )
    server.start()
    server.wait()
    yield server, address
    server.stop()


@pytest.fixture(scope="module")
def supervisor(broker: tuple[RabbitMQ, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    folder = tmp_path_factory.mktemp("cloud")
    (folder / "broker.conf").write_text(f"[DEFAULT]\ntransport_url = rabbit://control:control@{broker[1]}/\n")
    made = Supervisor(folder / "data")
    made.arguments = (
        *("--hypervisor", "libvirt", "--networks", "--ovn-address", HERE, "--bind", f"{HERE}:{made.ports[0]}"),
        *("--config-file", str(folder / "broker.conf")),
    )
    yield made.start().until_ready()
    made.stop()
    end_guests(made.folder)


@pytest.fixture(scope="module")
def stock(supervisor: Supervisor, machine: OtherMachine, broker: tuple[RabbitMQ, str]) -> StockCloud:
    """The cloud, after the host of the second machine has joined it."""
    cloud, folder = StockCloud(supervisor), supervisor.folder.parent
    account, agent, bundle = broker[0].folder / "metal-2.json", folder / "metal-2.conf", folder / "metal-2.bundle"
    written = ("--output", str(agent), "--definitions", str(account))
    files = [word for file in ("data/kilonova.conf", "broker.conf") for word in ("--config-file", str(folder / file))]
    done = cloud.kilonova("compute", "enrol", "metal-2", "--host", "metal-2", *written, *files)
    assert done.returncode == 0, done.stderr
    account.chmod(0o644)
    broker[0].control("import_definitions", str(account))
    done = cloud.kilonova("compute", "certify", "metal-2", "--output", str(bundle))
    assert done.returncode == 0, done.stderr
    machine.join(bundle, "--config-file", str(agent), "--guests-on-stop", "stop")
    return cloud


@pytest.fixture(scope="module")
def servers(stock: StockCloud, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The server ``first`` on the first machine and ``second`` on the second one. Return their hosts."""
    wait_until(lambda: len(hosts(stock)) == 2, "the host of the second machine to be up", at_most_s=60)
    (own,) = hosts(stock) - {"metal-2"}
    stock.do("flavor", "create", "--ram", "96", "--disk", "1", "net")
    create = ("--os-compute-api-version", "2.74", "server", "create", "--flavor", "net", "--image", "tiny", "--wait")
    stock.do(*create, "--host", own, "first")
    script = tmp_path_factory.mktemp("probes") / "script"
    script.write_text(_PROBES.format(other=stock.show("server", "show", "first")["addresses"]["private"][0]))
    stock.do(*create, "--host", "metal-2", "--user-data", str(script), "second")
    return [stock.show("server", "show", name)["OS-EXT-SRV-ATTR:host"] for name in ("first", "second")]


def hosts(stock: StockCloud) -> set[str]:
    services = stock.show("compute", "service", "list", "--service", "nova-compute")
    return {each["Host"] for each in services if each["State"] == "up"}


def test_guests_of_two_machines_reach_each_other_and_their_metadata(stock: StockCloud, servers: list[str]) -> None:
    assert servers[1] == "metal-2" != servers[0]
    wait_until(lambda: said(stock, "second", "probe: end"), "the probes to end", at_most_s=BOOT_S)
    probes = dict(said(stock, "second", r"probe: (\w+) (.*)\."))
    assert (probes["reach"], probes["large"]) == ("yes", "yes")
    name = stock.show("server", "show", "second")["OS-EXT-SRV-ATTR:instance_name"]
    assert probes["own"] == "i-" + name.rpartition("-")[2]


def test_consoles_of_both_machines_are_reached_through_the_proxy(
    supervisor: Supervisor, stock: StockCloud, servers: list[str]
) -> None:
    del servers
    vnc, serial = supervisor.console_ports
    for name in ("first", "second"):
        screen = connect(vnc, path_of(stock.show("console", "url", "show", name)["url"]), at=HERE)
        assert screen.read(12) == b"RFB 003.008\n"
        screen.close()
        terminal = connect(serial, path_of(stock.show("console", "url", "show", "--serial", name)["url"]), at=HERE)
        terminal.send(b"\necho $((6 * 7))-lines\n")
        terminal.read_until(b"42-lines")
        terminal.close()


def path_of(url: str) -> str:
    """Return the path of a WebSocket for a console, with its token. ``url``: what the API shows."""
    return f"/?{urlsplit(unquote(url)).query.rpartition('?')[2]}"


def test_nothing_is_left_on_the_second_machine(stock: StockCloud, servers: list[str], machine: OtherMachine) -> None:
    del servers
    stock.do("server", "delete", "--wait", "first", "second")
    assert machine.stop().splitlines()[-1] == "stopped"
    assert machine.rules() == ""
    wait_until(lambda: machine.devices() == {"eth0", "lo"}, "the veth pairs to be removed")
