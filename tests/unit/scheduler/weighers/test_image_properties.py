# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import aggregate, host, request, table
from tests.unit.scheduler.weighers.rated import rated

from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import ImagePropertiesWeigher

UBUNTU, SUSE = guest_kind("1", {"os_distro": "ubuntu", "arch": "x"}), guest_kind("1", {"os_distro": "suse"})
HOSTS = table(host("a", guests=(UBUNTU, UBUNTU, SUSE)), host("b", guests=(SUSE,)), host("c"))
ASKED = request(properties={"os_distro": "ubuntu", "arch": "x", "new": "1"})


def test_the_rating_is_the_number_of_properties_that_the_servers_of_the_host_share() -> None:
    even = ImagePropertiesWeigher.configured(SchedulerConfig(image_props_weight_multiplier=2.0))
    assert rated(even, HOSTS, ASKED) == [4.0, 0.0, 0.0]
    assert rated(even, HOSTS, request(properties={"os_distro": "suse"}), np.array([1, 2])) == [1.0, 0.0]


def test_a_request_without_properties_is_not_rated() -> None:
    even = ImagePropertiesWeigher.configured(SchedulerConfig(image_props_weight_multiplier=2.0))
    assert rated(even, HOSTS) is None
    assert rated(even, HOSTS, request(properties={})) is None


def test_a_setting_limits_the_properties_and_gives_their_weights() -> None:
    some = ImagePropertiesWeigher.configured(
        SchedulerConfig(image_props_weight_multiplier=-1.0, image_props_weight_setting=("os_distro=0.5", "bad"))
    )
    assert rated(some, HOSTS, ASKED) == [1.0, 0.0, 0.0]
    assert some.factors(HOSTS, ALL_ROWS) == -1.0


def test_no_aggregate_enables_a_weigher_whose_multiplier_is_0() -> None:
    hosts = table(host("a"), aggregates=(aggregate(1, ("a",), image_props_weight_multiplier="5"),))
    assert ImagePropertiesWeigher().factors(hosts, ALL_ROWS) == 0.0
    assert np.asarray(ImagePropertiesWeigher(multiplier=1.0).factors(hosts, ALL_ROWS)).tolist() == [5.0]
