# SPDX-License-Identifier: Apache-2.0
import re

from api.compute_cloud import Cloud
from kilonova.api.compute.removed import ROUTES


def test_removed_routes_are_gone_for_every_client(cloud: Cloud) -> None:
    uuid = cloud.add_server(None)
    for template, endpoints in ROUTES.items():
        path = re.sub(r"{\w+}", "1", template.replace("{server_id}", uuid))
        for method, endpoint in endpoints.items():
            for client in (cloud.admin, cloud.member, cloud.as_user("bob", "elsewhere", "reader")):
                for version in ("2.1", "2.43", "2.104"):
                    answer = client.at(version).send(method, path)
                    gone = endpoint.until is None or version != "2.104"
                    assert (answer.status, answer.fault[0]) == (
                        (410, "computeFault") if gone else (404, "itemNotFound")
                    )
    assert len(ROUTES) > 20
    answer = cloud.member.post(f"/servers/{uuid}/action", {"resetNetwork": None})
    assert (answer.status, answer.fault[0]) == (410, "computeFault")
