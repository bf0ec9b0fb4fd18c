# SPDX-License-Identifier: Apache-2.0
"""One host, partly used, for tests of the filters that compare a flavor with the free resources of a host."""

from typing import Any

from tests.unit.scheduler.small_cloud import flavor, one_host_in, request

from kilonova.model.provider import Inventory

INVENTORIES = (
    Inventory("VCPU", 8, allocation_ratio=2.0),
    Inventory("MEMORY_MB", 8_192, reserved=512, allocation_ratio=1.5),
    Inventory("DISK_GB", 100, reserved=10),
)
USED = {"VCPU": 4, "MEMORY_MB": 1_024, "DISK_GB": 40}
#: The largest flavor that fits with the allocation ratios of the inventories.
LARGEST: dict[str, Any] = {"vcpus": 12, "memory_mib": 10_752, "root_gib": 49, "swap_mib": 1024}
#: Metadata of an aggregate with low ratios, and of one with high ratios.
LOW = {"cpu_allocation_ratio": "1.0", "ram_allocation_ratio": "0.5", "disk_allocation_ratio": "0.75"}
HIGH = dict.fromkeys(LOW, "16")
UNREADABLE = dict.fromkeys(LOW, "many")


def passes(rule: Any, *metadata: dict[str, str], **asked: Any) -> bool:
    """Return whether a flavor passes on the host, which is in an aggregate for each of ``metadata``."""
    hosts = one_host_in(*metadata, inventories=INVENTORIES, used=USED)
    (answer,) = rule.passes(hosts, request(flavor=flavor(**asked))).tolist()
    return bool(answer)


def one_more(asked: dict[str, Any], dimension: str) -> dict[str, Any]:
    return {**asked, dimension: asked[dimension] + 1}
