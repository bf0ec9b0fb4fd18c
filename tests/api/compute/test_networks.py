# SPDX-License-Identifier: Apache-2.0
import pytest

from api.compute_cloud import Cloud
from api.compute_proxies import UNKNOWN, check_proxies
from kilonova.api.compute import networks
from support.fake_neutron import FakeNeutron, Fault


def test_without_a_network_service_there_are_no_networks(cloud: Cloud) -> None:
    check_proxies(cloud, networks.ROUTES)
    assert cloud.member.get(f"/os-networks/{UNKNOWN}").fault[1] == f"There is no network {UNKNOWN}."


def test_users_see_their_own_and_shared_and_external_networks(networked: Cloud, neutron: FakeNeutron) -> None:
    own, external = neutron.make_network("own", "wonder"), neutron.make_external()
    foreign, shared = neutron.make_network("theirs", "elsewhere"), neutron.make_network("all", "elsewhere", shared=True)

    shown = networked.member.get("/os-networks").body["networks"]

    assert {each["id"]: each["label"] for each in shown} == {own: "own", shared: "all", external: "public"}
    assert networked.member.get(f"/os-networks/{shared}").body["network"]["label"] == "all"
    assert {each["id"] for each in networked.admin.get("/os-networks").body["networks"]} > {own, foreign}
    for unknown in (foreign, UNKNOWN):
        answer = networked.member.get(f"/os-networks/{unknown}")
        assert (answer.status, answer.fault[1]) == (404, "Network not found")


def test_all_other_fields_are_null_and_some_are_for_administrators(networked: Cloud, neutron: FakeNeutron) -> None:
    network_id = neutron.make_network("own", "wonder")
    for client, count in ((networked.member, 11), (networked.admin, 32)):
        one = client.get(f"/os-networks/{network_id}").body["network"]
        assert client.get("/os-networks").body == {"networks": [one]}
        assert len(one) == count
        assert {value for key, value in one.items() if key not in {"id", "label"}} == {None}
    assert {"cidr", "dns1", "gateway_v6"} < networked.member.get("/os-networks").body["networks"][0].keys()


@pytest.mark.parametrize("path", ["/os-networks", "/os-networks/{}", "/os-tenant-networks"])
def test_a_network_service_that_does_not_answer_is_a_503(networked: Cloud, neutron: FakeNeutron, path: str) -> None:
    neutron.faults.plan("GET networks", Fault.LOST)
    assert networked.member.get(path.format(UNKNOWN)).status == 503


def test_the_routes_end_with_2_35_and_need_a_role(networked: Cloud) -> None:
    for path in ("/os-networks", "/os-tenant-networks"):
        assert networked.member.at("2.36").get(path).status == 404
        assert networked.as_user("alice", "wonder", "none").get(path).status == 403
