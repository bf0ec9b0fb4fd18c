# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import NO_AGGREGATES
from tests.unit.scheduler.small_cloud import request

from kilonova.errors import RequestFilterFailed
from kilonova.model.request_spec import RequestedNetwork
from kilonova.scheduler.request_filters import RoutedNetworksFilter


def test_each_routed_network_requires_an_aggregate_of_its_segments() -> None:
    first, second, third = (frozenset({uuid}) for uuid in ("a", "b", "c"))
    networks = (RequestedNetwork("n1", segments=(first, second)), RequestedNetwork("n2"), RequestedNetwork("n3"))
    spec = request(networks=(*networks, RequestedNetwork("n4", segments=(third,))))
    query = RoutedNetworksFilter().apply(spec, NO_AGGREGATES).query
    assert query.member_of == (first | second, third)


def test_a_segment_without_an_aggregate_is_refused() -> None:
    spec = request(networks=(RequestedNetwork("n1", segments=(frozenset({"a"}), frozenset())),))
    with pytest.raises(RequestFilterFailed, match="n1"):
        RoutedNetworksFilter().apply(spec, NO_AGGREGATES)
