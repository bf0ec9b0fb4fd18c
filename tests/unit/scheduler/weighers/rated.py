# SPDX-License-Identifier: Apache-2.0
"""Ratings of hosts as lists, and two hosts that differ in every column, for tests of weighers."""

from collections.abc import Sequence
from typing import Any

from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.host import Capabilities
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler import weighers
from kilonova.scheduler.host_table import ALL_ROWS, HostTable

CLOUD = table(
    host(
        "a",
        used={"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 10},
        num_instances=1,
        num_io_ops=2,
        failed_builds=3,
        capabilities=Capabilities(hypervisor_version=6),
    ),
    host("b", used={"MEMORY_MB": 8192}, capabilities=Capabilities(hypervisor_version=7)),
)


def rated(
    weigher: weighers.ColumnWeigher, hosts: HostTable = CLOUD, spec: RequestSpec | None = None, rows: Any = ALL_ROWS
) -> Sequence[float] | None:
    """Return the raw ratings of the hosts in ``rows``, or None if the weigher has no opinion."""
    raw = weigher.weigh(hosts, spec or request(), rows)
    return None if raw is None else raw.tolist()
