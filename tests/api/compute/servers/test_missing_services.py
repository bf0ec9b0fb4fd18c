# SPDX-License-Identifier: Apache-2.0
"""Routes of servers that need a network or volume service, which is not configured."""

from typing import Any

import pytest

from api.compute_cloud import Cloud

NOBODYS = "5b674f73-0000-4000-8000-000000000000"


@pytest.mark.parametrize("version", ["2.1", "2.104"])
def test_servers_have_no_networks_and_no_volumes(cloud: Cloud, version: str) -> None:
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
    ("method", "path", "words"),
    [
        ("GET", f"os-interface/{NOBODYS}", "does not have a port with id"),
        ("DELETE", f"os-interface/{NOBODYS}", "does not have a port with id"),
        ("GET", "ips/private", "not a member of specified network"),
        ("GET", f"os-volume_attachments/{NOBODYS}", "has no volume"),
        ("PUT", f"os-volume_attachments/{NOBODYS}", "has no volume"),
        ("DELETE", f"os-volume_attachments/{NOBODYS}", "has no volume"),
    ],
)
def test_a_single_port_or_volume_does_not_exist(cloud: Cloud, method: str, path: str, words: str) -> None:
    answer = cloud.member.at("2.104").send(method, f"/servers/{cloud.add_server(None)}/{path}")
    assert answer.status == 404
    assert words in answer.fault[1]


@pytest.mark.parametrize(
    ("path", "body", "until", "service"),
    [
        ("os-interface", {"interfaceAttachment": {"net_id": NOBODYS}}, None, "network"),
        ("os-interface", {}, None, "network"),
        ("os-volume_attachments", {"volumeAttachment": {"volumeId": NOBODYS}}, None, "volume"),
        ("action", {"addSecurityGroup": {"name": "web"}}, None, "network"),
        ("action", {"removeSecurityGroup": {"name": "web"}}, None, "network"),
        ("action", {"addFixedIp": {"networkId": 1}}, "2.43", "network"),
        ("action", {"removeFixedIp": {"address": "10.0.0.4"}}, "2.43", "network"),
        ("action", {"addFloatingIp": {"address": "10.0.0.4", "fixed_address": "10.0.0.5"}}, "2.43", "network"),
        ("action", {"removeFloatingIp": {"address": "fe80::7"}}, "2.43", "network"),
    ],
)
def test_a_refusal_names_the_missing_service(
    cloud: Cloud, path: str, body: Any, until: str | None, service: str
) -> None:
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
