# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, table

from kilonova.model.aggregate import Aggregate
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.engine.touched_hosts import touched_between
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.row_changes import RowChanges

HOSTS = table(*[host(name) for name in "abcd"])
BEFORE = LiveHosts(HOSTS, RowChanges(4), lambda now: np.full(4, now))


def touched(before: LiveHosts, after: LiveHosts) -> list[int] | None:
    found = touched_between(before, after)
    return None if found is None else found.tolist()


def with_aggregates(*aggregates: Aggregate) -> LiveHosts:
    return replace(BEFORE, hosts=replace(HOSTS, aggregates=AggregateIndex.of(aggregates, HOSTS.hosts)))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({}, []),
        ({"disabled": np.array([False, True, False, False])}, [1]),
        ({"forced_down": np.array([False, False, True, True])}, [2, 3]),
        ({"disabled_reasons": {3: "broken"}}, [3]),
    ],
)
def test_hosts_whose_service_differs(change: dict[str, Any], rows: list[int]) -> None:
    assert touched(BEFORE, replace(BEFORE, hosts=replace(HOSTS, **change))) == rows


def test_hosts_that_fall_silent_or_are_heard_again() -> None:
    silent = replace(BEFORE, last_seen=lambda now: np.array([now, 5.0, now, now]))
    assert touched(BEFORE, silent) == touched(silent, BEFORE) == [1]
    assert touched(silent, silent) == []


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ([aggregate(1, ("a", "b"), k="1")], [aggregate(1, ("b", "a"), k="1")], [0, 1]),
        ([aggregate(1, ("a",), k="1")], [aggregate(1, ("a", "d"), k="1")], [0, 3]),
        ([aggregate(1, ("a",)), aggregate(2, ("b",))], [aggregate(2, ("b",))], [0]),
        ([aggregate(1, ("a",)), aggregate(2, ("b",))], [aggregate(2, ("b",)), aggregate(1, ("a",))], []),
        ([], [aggregate(1, ("a",), **{"kilonova:only": "project=p"})], None),
    ],
)
def test_hosts_of_aggregates_that_differ(
    before: Sequence[Aggregate], after: Sequence[Aggregate], rows: list[int] | None
) -> None:
    assert touched(with_aggregates(*before), with_aggregates(*after)) == rows


def test_other_hosts_have_nothing_in_common() -> None:
    assert touched(BEFORE, replace(BEFORE, changes=RowChanges(4))) is None
