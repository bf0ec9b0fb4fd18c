# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import flavor, host, one_host_in, table

from kilonova.scheduler.overcommit import aggregate_ratio, cores_suffice, disk_needed, memory_suffices, own_ratio


def test_an_aggregate_sets_the_ratio_of_its_hosts() -> None:
    hosts = one_host_in({"cpu_allocation_ratio": "2.5"}, {"cpu_allocation_ratio": "8"})
    assert own_ratio(hosts, "cpu_allocation_ratio").tolist() == [4.0]
    assert aggregate_ratio(hosts, "cpu_allocation_ratio").tolist() == [2.5]
    assert aggregate_ratio(one_host_in({}), "cpu_allocation_ratio").tolist() == [4.0]


def test_the_reserve_counts_as_used_and_is_not_overcommitted() -> None:
    hosts = table(host(used={"MEMORY_MB": 1024}))
    for ratio, most in ((1.0, 8192 - 512 - 1024), (1.5, 12_288 - 512 - 1024)):
        ratios = np.array([ratio])
        assert memory_suffices(hosts, ratios, flavor(memory_mib=most)).tolist() == [True]
        assert memory_suffices(hosts, ratios, flavor(memory_mib=most + 1)).tolist() == [False]


def test_a_host_without_cores_has_enough() -> None:
    assert cores_suffice(table(host(inventories=())), np.array([1.0]), flavor(vcpus=9)).tolist() == [True]


def test_the_disk_of_a_flavor_is_the_sum_of_its_disks() -> None:
    assert disk_needed(flavor(root_gib=2, ephemeral_gib=3, swap_mib=7)) == 5 * 1024 + 7
