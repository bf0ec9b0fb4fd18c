# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

import pytest

from kilonova.errors import NotFound, OverQuota
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network.port_quota import require_quota, servers_within_quota
from support.fake_neutron import FakeNeutron

TOKEN = "demo-token"


class WithoutDetails(FakeNeutron):
    """A Neutron without the extension quota_details."""

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        if path.endswith("/details"):
            raise NotFound("The resource could not be found.")
        return super().call(method, path, body, token=token)


def two_ports_each(fake: FakeNeutron) -> NetworkRequest:
    fake.user(TOKEN, "demo")
    network = fake.make_network()
    user_port = RequestedNetwork(network_id=network, port_id=fake.make_port(network))
    new = RequestedNetwork(network_id=network)
    return NetworkRequest(mode=NetworkMode.LISTED, networks=(new, user_port, new))


@pytest.mark.parametrize("kind", [FakeNeutron, WithoutDetails])
def test_ports_that_exist_count_and_ports_of_the_user_need_none(kind: type[FakeNeutron]) -> None:
    fake = kind()
    request = two_ports_each(fake)
    for limit, servers in ((-1, 4), (8, 3), (9, 4), (10, 4), (2, 0), (1, 0)):
        fake.set_quota("demo", port=limit)
        assert servers_within_quota(fake, TOKEN, "demo", request, 4) == servers
    fake.set_quota("demo", port=8)
    require_quota(fake, TOKEN, "demo", request, 3)
    with pytest.raises(OverQuota, match="Maximum number of ports exceeded"):
        require_quota(fake, TOKEN, "demo", request, 4)
    fake.set_quota("demo", port=0)
    with pytest.raises(OverQuota, match="The number of defined ports: 1 is over the limit: 0"):
        servers_within_quota(fake, TOKEN, "demo", request, 1)


def test_a_request_without_new_ports_needs_no_quota() -> None:
    fake = FakeNeutron()
    require_quota(fake, TOKEN, "demo", NO_NETWORKS, 100)
    assert fake.faults.calls == []
