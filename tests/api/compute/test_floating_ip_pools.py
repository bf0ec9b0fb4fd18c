# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud
from api.compute_proxies import check_proxies
from kilonova.api.compute import floating_ip_pools
from support.fake_neutron import FakeNeutron


def test_without_a_network_service_there_are_no_pools(cloud: Cloud) -> None:
    check_proxies(cloud, floating_ip_pools.ROUTES)


def test_pools_are_the_external_networks_by_name_or_id(networked: Cloud, neutron: FakeNeutron) -> None:
    neutron.make_external("public")
    nameless = neutron.make_external("", "172.25.0.0/24")
    neutron.make_network("own", "wonder")
    for client in (networked.member, networked.admin):
        assert client.get("/os-floating-ip-pools").body == {
            "floating_ip_pools": [{"name": "public"}, {"name": nameless}]
        }
