# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --hypervisor libvirt --networks`` with the stock client: real guests that send packets.

``tools/network_guest.sh`` builds their image ``tiny``. The tests are in the order of the life of one cloud.
"""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pytest

from kilonova.bundled_services.host_network import HostNetwork, run
from support.external_network import external_network
from support.network_guests import BOOT_S, end_guests, namespaces, said
from support.samples import IS_WHOLE
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.viewers import connect
from support.waiting import wait_until

pytestmark = pytest.mark.cloud

#: Metadata and orders come over RabbitMQ. `make guests-whole` tests a host without an agent process.
_AGENTS = () if IS_WHOLE else ("--agents", "1")


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    folder = tmp_path_factory.mktemp("networks") / "data"
    supervisor = Supervisor(folder, arguments=("--hypervisor", "libvirt", "--networks", *_AGENTS))
    with external_network():
        yield supervisor.start().until_ready()
        supervisor.stop()
        end_guests(folder)


@pytest.fixture(scope="module")
def stock(supervisor: Supervisor) -> StockCloud:
    return StockCloud(supervisor)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File for the private key of the key pair ``key``."""
    return tmp_path_factory.mktemp("key") / "key"


@pytest.fixture(scope="module")
def addresses(stock: StockCloud, key: Path) -> dict[str, list[str]]:
    """Two running servers: name → addresses that the API shows, the IPv4 address first."""
    stock.do("keypair", "create", "--private-key", str(key), "key")
    key.chmod(0o600)
    stock.do("flavor", "create", "--ram", "96", "--disk", "1", "net")
    (group,) = (each["ID"] for each in stock.show("security", "group", "list", "--project", "admin"))
    for protocol in ("icmp", "tcp", "ipv6-icmp"):
        family = ("--ethertype", "IPv6") if protocol == "ipv6-icmp" else ()
        stock.do("security", "group", "rule", "create", *family, "--protocol", protocol, group)
    names = ("first", "second")
    for name in names:
        stock.do("server", "create", "--flavor", "net", "--image", "tiny", "--key-name", "key", "--wait", name)
    shown = {name: stock.show("server", "show", name)["addresses"]["private"] for name in names}
    return {name: sorted(both, key=lambda address: ":" in address) for name, both in shown.items()}


def path_of(url: str) -> str:
    """Return the path of a WebSocket for a console, with its token. ``url``: what the API shows."""
    return f"/?{urlsplit(unquote(url)).query.rpartition('?')[2]}"


def fetched(address: str, path: str = "") -> str:
    try:
        with urlopen(f"http://{address}/{path}", timeout=5) as answer:
            return str(answer.read().decode().strip())
    except (URLError, TimeoutError, ConnectionError):
        return ""


def test_guests_get_by_dhcp_the_addresses_that_the_api_shows(
    stock: StockCloud, addresses: dict[str, list[str]]
) -> None:
    for name, (address, _) in addresses.items():
        pattern = r"guest: address eth0 (\S+)/24 mtu=1442"
        wait_until(lambda name=name, pattern=pattern: said(stock, name, pattern), "the guest to boot", at_most_s=BOOT_S)
        assert said(stock, name, pattern) == [address]


def test_guests_read_their_metadata(stock: StockCloud, addresses: dict[str, list[str]]) -> None:
    for name in addresses:
        pattern = r"guest: instance (i-\w+) \(metadata service\) named (\S+)"
        wait_until(lambda name=name, pattern=pattern: said(stock, name, pattern), "the metadata", at_most_s=60)
        ((instance, host),) = said(stock, name, pattern)
        assert host == name
        number = stock.show("server", "show", name)["OS-EXT-SRV-ATTR:instance_name"].rpartition("-")[2]
        assert instance == f"i-{number}"


@pytest.fixture(scope="module")
def floating(stock: StockCloud, addresses: dict[str, list[str]]) -> str:
    """Floating address of the first server."""
    address: str = stock.show("floating", "ip", "create", "public")["floating_ip_address"]
    stock.do("server", "add", "floating", "ip", "first", address)
    return address


def test_the_machine_reaches_a_guest_by_its_floating_address(floating: str) -> None:
    wait_until(lambda: fetched(floating), "the guest to answer", at_most_s=BOOT_S)


def test_guests_reach_each_other(floating: str, addresses: dict[str, list[str]]) -> None:
    for address in addresses["second"]:
        wait_until(
            lambda address=address: fetched(floating, f"cgi-bin/reach?{address}") == "yes", "a ping", at_most_s=60
        )
    assert fetched(floating, "cgi-bin/reach?10.0.0.254") == "no"


def test_a_user_logs_in_with_the_key_pair(stock: StockCloud, floating: str, key: Path) -> None:
    options = ("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={key}.hosts", "-i", str(key))
    said_by_guest = stock.do("server", "ssh", "first", "--", "-l", "root", *options, "hostname; cat /etc/instance")
    assert said_by_guest.split()[0] == "first"
    refused = subprocess.run(
        ("ssh", *options, "-o", "BatchMode=yes", "-i", "/dev/null", f"nobody@{floating}"),
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 255


def test_consoles_of_guests_are_reached_through_the_proxy(
    supervisor: Supervisor, stock: StockCloud, floating: str
) -> None:
    del floating
    vnc, serial = supervisor.console_ports
    screen = connect(vnc, path_of(stock.show("console", "url", "show", "second")["url"]))
    assert screen.read(12) == b"RFB 003.008\n"
    screen.close()
    terminal = connect(serial, path_of(stock.show("console", "url", "show", "--serial", "second")["url"]))
    terminal.send(b"\necho $((6 * 7))-lines\n")
    terminal.read_until(b"42-lines")
    terminal.close()


def test_guests_are_connected_again_after_the_cloud_was_killed(
    supervisor: Supervisor, floating: str, addresses: dict[str, list[str]]
) -> None:
    supervisor.process.send_signal(signal.SIGKILL)
    supervisor.process.communicate()
    assert not fetched(floating)
    supervisor.start().until_ready()
    wait_until(lambda: fetched(floating, f"cgi-bin/reach?{addresses['second'][0]}") == "yes", "a ping", at_most_s=60)


def test_an_interface_can_be_attached_and_detached(stock: StockCloud, floating: str) -> None:
    del floating
    stock.do("server", "add", "network", "second", "private")
    wait_until(lambda: said(stock, "second", r"guest: address eth1 (\S+)/24"), "a lease", at_most_s=60)
    ports = {each["ID"]: each["Fixed IP Addresses"] for each in stock.show("port", "list", "--server", "second")}
    (added,) = said(stock, "second", r"guest: address eth1 (\S+)/24")
    (port,) = (port for port, fixed in ports.items() if any(each["ip_address"] == added for each in fixed))
    stock.do("server", "remove", "port", "second", port)
    wait_until(lambda: said(stock, "second", "guest: card (eth1) detached"), "the guest to lose its card", at_most_s=60)


def test_nothing_is_left_when_the_guests_are_stopped(supervisor: Supervisor, stock: StockCloud) -> None:
    for name in ("first", "second"):
        stock.do("server", "delete", "--wait", name)
    assert not [each for each in stock.show("port", "list") if each["Name"] in {"first", "second"}]
    supervisor.stop()
    device = Path("/sys/class/net", HostNetwork(supervisor.folder, "").external)
    wait_until(lambda: not device.exists(), "the veth pairs to be removed")
    assert not namespaces(supervisor.folder)
    assert f"kilonova-{device.name}" not in run("nft", "list", "tables")
