# SPDX-License-Identifier: Apache-2.0
"""Networks of servers in Horizon's panels, in a cloud with Neutron."""

from collections.abc import Callable, Iterator

import pytest
from dashboard import INSTANCES, Dashboard, User

from conftest import start_cloud
from kilonova.bundled_services.free_ports import free_port
from support.supervisor import Supervisor


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    started = start_cloud(tmp_path_factory.mktemp("cloud"), "--hosts", "2", "--networks")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def dashboard(cloud: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    started = Dashboard(tmp_path_factory.mktemp("horizon"), cloud.identity, free_port(), networks=True)
    yield started
    started.stop()


def test_a_member_launches_a_server_on_a_network_with_a_security_group(sign_in: Callable[[str], User]) -> None:
    member = sign_in("kilonova-demo")
    member.open("/project/networks/")
    member.sees("private", "public")
    member.launch("web", ("Networks", "private-v6"), ("Security Groups", "default"))
    member.until_row("web", "10.0.0.")
    member.click("a", "web")
    member.sees("IP Addresses", "10.0.0.", "Security Groups", "default", "ALLOW IPv4 to 0.0.0.0/0")
    member.click("a", "Interfaces")
    member.sees("10.0.0.", "Active")
    member.open(INSTANCES)
    member.act("web", "delete")
    member.click(".modal-dialog .btn-primary, .modal-dialog .btn-danger", "Delete Instance")
    member.until(lambda: member.row("web") is None, "the server to be deleted")
