# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import aggregate, host, table
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.weighers import BuildFailureWeigher


def test_the_rating_is_the_number_of_failed_builds() -> None:
    assert rated(BuildFailureWeigher()) == [3, 0]
    assert rated(BuildFailureWeigher(), CLOUD, rows=np.array([1])) == [0]


def test_build_failures_count_against_the_host_also_with_the_multiplier_of_an_aggregate() -> None:
    hosts = table(host("a"), host("b"), aggregates=(aggregate(1, ("b",), build_failure_weight_multiplier="2"),))
    assert BuildFailureWeigher().factors(table(host()), ALL_ROWS) == -1000000.0
    assert np.asarray(BuildFailureWeigher(multiplier=3.0).factors(hosts, ALL_ROWS)).tolist() == [-3.0, -2.0]
