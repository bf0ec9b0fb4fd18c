# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, table
from tests.unit.scheduler.small_devices import gpus
from tests.unit.scheduler.weighers.rated import rated

from kilonova.model.host_devices import HostDevices
from kilonova.scheduler.weighers import PCIWeigher


def test_few_free_devices_are_rated_above_many_and_more_than_99_count_as_99() -> None:
    hosts = table(
        host("none"),
        host("some", devices=HostDevices((), (gpus(0, 4, None, used=1), gpus(1, 2, None)))),
        host("many", devices=HostDevices((), (gpus(0, 500, None),))),
    )
    assert rated(PCIWeigher(), hosts) == [100, 95, 1]
    assert rated(PCIWeigher(), hosts, rows=np.array([2, 0])) == [1, 100]


def test_hosts_without_devices_are_not_rated() -> None:
    assert rated(PCIWeigher(), table(host("a"), host("b"))) is None
