# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import INVENTORIES, host, table

from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import ALL_ROWS

HOSTS = table(
    host("a", used={"VCPU": 3, "MEMORY_MB": 1024, "DISK_GB": 50}, num_instances=2, num_io_ops=1, failed_builds=4),
    host("b"),
)


def test_attributes_have_the_units_of_nova() -> None:
    values = {name: column(HOSTS, ALL_ROWS)[0].item() for name, column in COLUMNS.items()}
    assert values == {
        "free_ram_mb": 8192 - 512 - 1024,
        "total_usable_ram_mb": 8192,
        "ram_allocation_ratio": 1.0,
        "free_disk_mb": 150 * 1024,
        "total_usable_disk_gb": 200,
        "disk_mb_used": 50 * 1024,
        "disk_allocation_ratio": 1.0,
        "vcpus_total": 8,
        "vcpus_used": 3,
        "cpu_allocation_ratio": 4.0,
        "num_instances": 2,
        "num_io_ops": 1,
        "failed_builds": 4,
    }


def test_only_the_given_rows_are_returned() -> None:
    for name, column in COLUMNS.items():
        assert column(HOSTS, np.array([1])).tolist() == [column(HOSTS, ALL_ROWS)[1]], name


def test_a_class_that_no_host_has_counts_as_0() -> None:
    hosts = table(host("a", inventories=INVENTORIES[1:2]))
    assert {name: COLUMNS[name](hosts, ALL_ROWS).tolist() for name in ("vcpus_total", "disk_mb_used")} == {
        "vcpus_total": [0],
        "disk_mb_used": [0],
    }
