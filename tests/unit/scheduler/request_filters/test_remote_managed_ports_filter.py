# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.model.request_spec import RequestedNetwork
from kilonova.scheduler.request_filters import RemoteManagedPortsFilter


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), set()),
        (("normal", "direct"), set()),
        (("normal", "remote-managed"), {"COMPUTE_REMOTE_MANAGED_PORTS"}),
    ],
)
def test_remote_managed_ports_require_their_trait(types: tuple[str, ...], expected: set[str]) -> None:
    networks: Any = tuple(RequestedNetwork("n", vnic_type=kind) for kind in types)
    assert required(RemoteManagedPortsFilter(), request(networks=networks)) == expected
