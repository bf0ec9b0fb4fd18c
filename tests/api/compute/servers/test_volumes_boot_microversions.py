# SPDX-License-Identifier: Apache-2.0
import pytest

from api.compute_cloud import Cloud


@pytest.mark.parametrize(("version", "status"), [("2.1", 200), ("2.102", 200), ("2.103", 404)])
def test_servers_under_their_other_name(cloud: Cloud, version: str, status: int) -> None:
    uuid = cloud.add_server(None, name="booted")
    member = cloud.member.at(version)
    for path in ("", "/detail", f"/{uuid}"):
        answer = member.get(f"/os-volumes_boot{path}")
        assert answer.status == status
        if status == 200:
            server = answer.body["server"] if path.endswith(uuid) else answer.body["servers"][0]
            assert (server["id"], server["links"][0]["href"].endswith(f"/servers/{uuid}")) == (uuid, True)
