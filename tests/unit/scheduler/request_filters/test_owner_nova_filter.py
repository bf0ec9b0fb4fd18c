# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import OwnerNovaFilter


def test_every_request_requires_a_host_of_nova() -> None:
    assert required(OwnerNovaFilter(), request()) == {"OWNER_NOVA"}
