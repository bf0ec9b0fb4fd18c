# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud


def test_no_server_has_a_share(cloud: Cloud) -> None:
    path = f"/servers/{cloud.add_server(None)}/shares"
    share = {"share": {"share_id": "5b674f73-0000-4000-8000-000000000000", "tag": "data"}}
    assert cloud.member.at("2.96").get(path).status == 404
    member = cloud.member.at("2.97")
    assert member.get(path).body == {"shares": []}
    refused = member.post(path, share)
    assert (refused.status, refused.fault) == (400, ("badRequest", "No share service is configured."))
    assert (member.get(f"{path}/x").status, member.delete(f"{path}/x").status) == (404, 404)
    for bad in ({}, {"share": {}}, {"share": {"share_id": "x"}}, {"share": {**share["share"], "tag": "a b"}}):
        answer = member.post(path, bad)
        assert (answer.status, "service" in answer.fault[1]) == (400, False), bad
