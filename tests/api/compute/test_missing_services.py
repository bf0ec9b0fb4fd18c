# SPDX-License-Identifier: Apache-2.0
"""Without a network and a volume service nothing is there, and what needs one says so. What Nova removed is gone."""

import re
from typing import Any

import pytest

from api.compute_cloud import Cloud
from kilonova.api.compute.removed import ROUTES

NOBODYS = "5b674f73-0000-4000-8000-000000000000"


@pytest.mark.parametrize("version", ["2.1", "2.104"])
def test_what_servers_have_is_nothing(cloud: Cloud, version: str) -> None:
    uuid, member = cloud.add_server(None), cloud.member.at(version)
    for path, body in (
        ("os-interface", {"interfaceAttachments": []}),
        ("os-volume_attachments", {"volumeAttachments": []}),
        ("os-security-groups", {"security_groups": []}),
        ("ips", {"addresses": {}}),
    ):
        answer = member.get(f"/servers/{uuid}/{path}")
        assert (answer.status, answer.body) == (200, body)
        assert member.get(f"/servers/{NOBODYS}/{path}").status == 404
        assert cloud.as_user("mallory", "elsewhere").at(version).get(f"/servers/{uuid}/{path}").status == 404
    assert member.get(f"/servers/{uuid}/os-volume_attachments?limit=1&offset=0").status == 200
    assert member.get(f"/servers/{uuid}/os-volume_attachments?limit=x").status == 400


@pytest.mark.parametrize(
    "path", ["/os-security-groups", "/os-volumes", "/os-volumes/detail", "/os-snapshots", "/os-snapshots/detail"]
)
def test_pages_of_nothing_have_limits_all_the_same(cloud: Cloud, path: str) -> None:
    member = cloud.member.at("2.35")
    assert member.get(f"{path}?limit=1&offset=0&anything=x").status == 200
    for query in ("limit=-1", "offset=-1", "limit=x"):
        answer = member.get(f"{path}?{query}")
        assert answer.status == 400
        assert query.partition("=")[0] in answer.fault[1]


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", f"os-interface/{NOBODYS}", "has no port"),
        ("DELETE", f"os-interface/{NOBODYS}", "has no port"),
        ("GET", "ips/private", "has no addresses of network private"),
        ("GET", f"os-volume_attachments/{NOBODYS}", "has no volume"),
        ("PUT", f"os-volume_attachments/{NOBODYS}", "has no volume"),
        ("DELETE", f"os-volume_attachments/{NOBODYS}", "has no volume"),
    ],
)
def test_one_of_them_is_not_there(cloud: Cloud, method: str, path: str, words: str) -> None:
    answer = cloud.member.at("2.104").send(method, f"/servers/{cloud.add_server(None)}/{path}")
    assert answer.status == 404
    assert words in answer.fault[1]


@pytest.mark.parametrize(
    ("path", "body", "until", "service"),
    [
        ("os-interface", {"interfaceAttachment": {"net_id": NOBODYS}}, None, "network"),
        ("os-interface", None, None, "network"),
        ("os-volume_attachments", {"volumeAttachment": {"volumeId": NOBODYS}}, None, "volume"),
        ("action", {"addSecurityGroup": {"name": "web"}}, None, "network"),
        ("action", {"removeSecurityGroup": {"name": "web"}}, None, "network"),
        ("action", {"addFixedIp": {"networkId": 1}}, "2.43", "network"),
        ("action", {"removeFixedIp": {"address": "10.0.0.4"}}, "2.43", "network"),
        ("action", {"addFloatingIp": {"address": "10.0.0.4", "fixed_address": "10.0.0.5"}}, "2.43", "network"),
        ("action", {"removeFloatingIp": {"address": "fe80::7"}}, "2.43", "network"),
    ],
)
def test_what_needs_a_service_says_which(cloud: Cloud, path: str, body: Any, until: str | None, service: str) -> None:
    url = f"/servers/{cloud.add_server(None)}/{path}"
    before = cloud.everything()
    for version in ("2.1", until or "2.104"):
        answer = cloud.member.at(version).post(url, body)
        assert (answer.status, answer.fault[1]) == (400, f"No {service} service is configured.")
    if until is not None:
        assert cloud.member.at("2.44").post(url, body).status == 404
    assert cloud.as_user("mallory", "elsewhere").post(url, body).status == 404
    assert cloud.as_user("bob", "wonder", "reader").post(url, body).status == 403
    assert cloud.everything() == before


@pytest.mark.parametrize("body", [{"addSecurityGroup": {}}, {"addFixedIp": None}, {"addFloatingIp": {"address": "x"}}])
def test_bad_bodies_of_actions(cloud: Cloud, body: Any) -> None:
    assert cloud.member.post(f"/servers/{cloud.add_server(None)}/action", body).status == 400


def test_what_nova_removed_is_gone_for_everybody(cloud: Cloud) -> None:
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
