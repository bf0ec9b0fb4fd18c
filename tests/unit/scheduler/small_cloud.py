# SPDX-License-Identifier: Apache-2.0
"""Small clouds and requests for tests of rules."""

from collections.abc import Mapping
from typing import Any

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable

INVENTORIES = (
    Inventory("VCPU", 8, allocation_ratio=4.0),
    Inventory("MEMORY_MB", 8_192, reserved=512),
    Inventory("DISK_GB", 200),
)


def host(name: str = "node1", **changes: Any) -> HostRecord:
    """Return a host with some room, and with the traits that every hypervisor has beside those given."""
    traits = changes.pop("traits", frozenset()) | frozenset(NODE_TRAITS)
    return HostRecord(host=name, inventories=changes.pop("inventories", INVENTORIES), traits=traits, **changes)


def table(*records: HostRecord, aggregates: tuple[Aggregate, ...] = (), taken_at: float = 0.0) -> HostTable:
    return build_host_table(records or (host(),), aggregates, taken_at=taken_at)


def aggregate(number: int, hosts: tuple[str, ...], **metadata: str) -> Aggregate:
    return Aggregate(number, f"uuid-{number}", f"aggregate{number}", hosts, metadata)


def one_host_in(*metadata: Mapping[str, str], **changes: Any) -> HostTable:
    """Return one host that is in one aggregate for each of ``metadata``."""
    aggregates = tuple(
        Aggregate(number, f"uuid-{number}", f"aggregate{number}", ("node1",), each)
        for number, each in enumerate(metadata)
    )
    return table(host(**changes), aggregates=aggregates)


def flavor(extra_specs: Mapping[str, str] | None = None, **changes: Any) -> Flavor:
    given = {"flavor_id": "1", "name": "m1", "vcpus": 1, "memory_mib": 512, "root_gib": 1, **changes}
    return Flavor(**given, extra_specs=extra_specs or {})


def request(
    extra_specs: Mapping[str, str] | None = None, properties: Mapping[str, Any] | None = None, **changes: Any
) -> RequestSpec:
    changes.setdefault("flavor", flavor(extra_specs))
    if properties is not None:
        changes["image"] = Image("image", properties=properties)
    return RequestSpec(**changes)
