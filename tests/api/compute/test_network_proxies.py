# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud
from api.compute_proxies import check_pages, check_proxies
from kilonova.api.compute import network_proxies


def test_network_routes_reply_with_empty_lists_and_end_with_2_35(cloud: Cloud) -> None:
    check_proxies(cloud, network_proxies.ROUTES)


def test_paging_parameters_of_empty_lists_are_validated(cloud: Cloud) -> None:
    check_pages(cloud, "/os-security-groups")
