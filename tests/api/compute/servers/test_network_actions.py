# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud


@pytest.mark.parametrize("body", [{"addSecurityGroup": {}}, {"addFixedIp": None}, {"addFloatingIp": {"address": "x"}}])
def test_invalid_bodies_of_network_actions_are_refused(cloud: Cloud, body: Any) -> None:
    assert cloud.member.post(f"/servers/{cloud.add_server(None)}/action", body).status == 400
