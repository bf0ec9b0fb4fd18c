# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import aggregate, host, request, table
from tests.unit.scheduler.weighers.rated import rated

from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import ImageCacheWeigher

ASKED = request(properties={})
WEIGHER = ImageCacheWeigher.configured(SchedulerConfig(image_cache_weight_multiplier=3.0))


def test_hosts_that_keep_the_image_come_first() -> None:
    assert ASKED.image is not None
    kept = {f"image.{ASKED.image.id}": 1.0}
    hosts = table(host("a", metrics={"image.another": 1.0}), host("b", metrics=kept), host("c"))
    assert rated(WEIGHER, hosts, ASKED) == [0.0, 1.0, 0.0]
    assert rated(WEIGHER, hosts, ASKED, np.array([1, 2])) == [1.0, 0.0]
    assert rated(WEIGHER, hosts) is None, "the request has no image"


def test_hosts_that_report_no_images_are_rated_0() -> None:
    assert rated(WEIGHER, table(host("a"), host("b")), ASKED) == [0.0, 0.0]


def test_no_aggregate_enables_a_weigher_whose_multiplier_is_0() -> None:
    hosts = table(host("a"), aggregates=(aggregate(1, ("a",), image_cache_weight_multiplier="5"),))
    assert WEIGHER.factors(table(host("a")), ALL_ROWS) == 3.0
    assert ImageCacheWeigher().factors(hosts, ALL_ROWS) == 0.0
    assert np.asarray(WEIGHER.factors(hosts, ALL_ROWS)).tolist() == [5.0]
