# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud
from api.compute_proxies import UNKNOWN, check_proxies
from kilonova.api.compute import tenant_networks
from support.fake_neutron import FakeNeutron


def test_without_a_network_service_there_are_no_networks(cloud: Cloud) -> None:
    check_proxies(cloud, tenant_networks.ROUTES)


def test_a_network_has_an_id_a_label_and_no_known_cidr(networked: Cloud, neutron: FakeNeutron) -> None:
    network_id = neutron.make_network("own", "wonder")
    neutron.make_network("theirs", "elsewhere")
    view = {"id": network_id, "label": "own", "cidr": "None"}
    assert networked.member.get("/os-tenant-networks").body == {"networks": [view]}
    assert networked.member.get(f"/os-tenant-networks/{network_id}").body == {"network": view}
    answer = networked.member.get(f"/os-tenant-networks/{UNKNOWN}")
    assert (answer.status, answer.fault[1]) == (404, "Network not found")
