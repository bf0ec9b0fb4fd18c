# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from tests.unit.scheduler.small_cloud import host, request, table
from tests.unit.scheduler.small_devices import gpus

from kilonova.model.host_devices import HostDevices
from kilonova.scheduler.filters import PciPassthroughFilter
from kilonova.scheduler.settings import SchedulerConfig

ALIASES = (
    json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}),
    json.dumps({"name": "nic", "vendor_id": "8086", "product_id": "1572"}),
)
RULE = PciPassthroughFilter.configured(SchedulerConfig(pci_alias=ALIASES))


HOSTS = table(
    host("bare"),
    host("one", devices=HostDevices((), (gpus(0, 1, None),))),
    host("busy", devices=HostDevices((), (gpus(0, 4, None, used=3),))),
    host("two", devices=HostDevices((), (gpus(0, 2, None),))),
)


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"pci_passthrough:alias": "gpu:1"}, [False, True, True, True]),
        ({"pci_passthrough:alias": "gpu:2"}, [False, False, False, True]),
        ({"pci_passthrough:alias": "gpu:1,gpu:1"}, [False, False, False, True]),
        ({"pci_passthrough:alias": "gpu:1,nic:1"}, [False, False, False, False]),
        ({"pci_passthrough:alias": "unknown:1"}, [False, False, False, False]),
    ],
)
def test_free_devices_must_serve_all_requests_together(extra_specs: dict[str, str], expected: list[bool]) -> None:
    assert RULE.passes(HOSTS, request(extra_specs)).tolist() == expected
