# SPDX-License-Identifier: Apache-2.0
import pytest

from api.compute_cloud import Cloud
from support.interfaces import interface

FIRST = interface("private", "10.0.0.5", floating=("172.24.4.9",))
SECOND = interface("other", "fd00::5", mac="fa:16:3e:00:00:02")


@pytest.mark.parametrize("version", ["2.1", "2.104"])
def test_addresses_are_listed_by_network(networked: Cloud, version: str) -> None:
    server, member = networked.add_server(None), networked.member.at(version)
    assert member.get(f"/servers/{server}/ips").body == {"addresses": {}}
    networked.set_interfaces(server, (FIRST, SECOND))
    private = [{"version": 4, "addr": "10.0.0.5"}, {"version": 4, "addr": "172.24.4.9"}]
    other = [{"version": 6, "addr": "fd00::5"}]
    assert member.get(f"/servers/{server}/ips").body == {"addresses": {"private": private, "other": other}}
    answer = member.get(f"/servers/{server}/ips/other")
    assert (answer.status, answer.body) == (200, {"other": other})


def test_a_network_on_which_the_server_is_not_is_not_found(networked: Cloud) -> None:
    server = networked.add_server(None)
    networked.set_interfaces(server, (FIRST,))
    answer = networked.member.get(f"/servers/{server}/ips/other")
    assert (answer.status, answer.fault[1]) == (404, "Instance is not a member of specified network")
    assert networked.as_user("mallory", "elsewhere").get(f"/servers/{server}/ips/private").status == 404
    assert networked.as_user("bob", "wonder").get(f"/servers/{server}/ips/private").status == 200
