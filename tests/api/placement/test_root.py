# SPDX-License-Identifier: Apache-2.0
from api.placement.placement_service import Placement


def test_discovery_needs_no_token_and_names_the_range(placement: Placement) -> None:
    answer = placement.admin.as_user("").at(None).get("/")
    assert answer.status == 200
    (version,) = answer.body["versions"]
    assert version["id"] == "v1.0"
    assert (version["min_version"], version["max_version"]) == ("1.0", "1.39")
    assert version["links"] == [{"rel": "self", "href": ""}]
    assert placement.admin.as_user("").get("").status == 200
