# SPDX-License-Identifier: Apache-2.0
import pytest

from api.compute_cloud import Cloud


@pytest.mark.parametrize(
    "path", ["/os-security-groups", "/os-volumes", "/os-volumes/detail", "/os-snapshots", "/os-snapshots/detail"]
)
def test_paging_parameters_of_empty_lists_are_validated(cloud: Cloud, path: str) -> None:
    member = cloud.member.at("2.35")
    assert member.get(f"{path}?limit=1&offset=0&anything=x").status == 200
    for query in ("limit=-1", "offset=-1", "limit=x"):
        answer = member.get(f"{path}?{query}")
        assert answer.status == 400
        assert query.partition("=")[0] in answer.fault[1]
