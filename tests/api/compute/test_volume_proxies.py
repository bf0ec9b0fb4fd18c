# SPDX-License-Identifier: Apache-2.0
import pytest

from api.compute_cloud import Cloud
from api.compute_proxies import check_pages, check_proxies
from kilonova.api.compute import volume_proxies


def test_volume_routes_reply_with_empty_lists_and_end_with_2_35(cloud: Cloud) -> None:
    check_proxies(cloud, volume_proxies.ROUTES)
    assert cloud.as_user("bob", "wonder", "reader").post("/os-volumes", {"volume": {}}).status == 403
    assert cloud.member.get("/os-baremetal-nodes").status == 403


@pytest.mark.parametrize("path", ["/os-volumes", "/os-volumes/detail", "/os-snapshots", "/os-snapshots/detail"])
def test_paging_parameters_of_empty_lists_are_validated(cloud: Cloud, path: str) -> None:
    check_pages(cloud, path)
