# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import aggregate, host, table

from kilonova.scheduler.aggregate_rules import float_factors, if_concerned, in_any, integer_limits, split

HOSTS = table(
    *(host(name) for name in "abcd"),
    aggregates=(
        aggregate(0, ("a", "b"), limit="5", x="1"),
        aggregate(1, ("b", "c"), limit="-2", x="2"),
        aggregate(2, ("d",), limit="many"),
        aggregate(3, ("gone",), only_here="1"),
    ),
)


def test_the_smallest_number_of_the_aggregates_counts() -> None:
    assert np.asarray(integer_limits(HOSTS, "limit", 9)).tolist() == [5, -2, -2, 9]
    assert np.asarray(float_factors(HOSTS, "limit", 0.5)).tolist() == [5.0, -2.0, -2.0, 0.5]


def test_a_key_of_no_host_leaves_the_default_as_one_number() -> None:
    assert integer_limits(HOSTS, "only_here", 9) == 9
    assert float_factors(HOSTS, "unknown", 0.5) == 0.5


def test_only_hosts_of_a_concerned_aggregate_must_satisfy_the_condition() -> None:
    passed = if_concerned(HOSTS, lambda each: "x" in each.metadata, lambda each: each.metadata.get("x") == "2")
    assert passed.tolist() == [False, True, True, True]
    assert in_any(HOSTS, [False, False, True, True]).tolist() == [False, False, False, True]


def test_the_words_of_a_list_lose_their_blanks() -> None:
    assert split(" a, b ,,c d") == ("a", "b", "", "c d")
