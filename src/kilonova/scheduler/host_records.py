# SPDX-License-Identifier: Apache-2.0
"""Hosts as records, from which scenarios, tests and benchmarks build a host table."""

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from kilonova.model.address import canonical_address
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.provider import Inventory
from kilonova.placement.inventory_columns import InventoryColumns, bits_by_name
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.device_states import DeviceStates
from kilonova.scheduler.guests import GuestKind, TableGuests
from kilonova.scheduler.host_table import HostTable


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The attributes of one host."""

    host: str
    inventories: tuple[Inventory, ...]
    node: str = ""
    uuid: str = ""
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    capabilities: Capabilities = field(default_factory=Capabilities)
    disabled: bool = False
    disabled_reason: str = ""
    forced_down: bool = False
    last_seen: float = 0.0
    num_instances: int = 0
    num_io_ops: int = 0
    failed_builds: int = 0
    instances: tuple[str, ...] = ()
    guests: tuple[GuestKind, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    cell_uuid: str = ""
    host_ip: str = "127.0.0.1"
    devices: HostDevices = NOTHING


def build_host_table(
    records: Sequence[HostRecord], aggregates: Sequence[Aggregate] = (), *, taken_at: float = 0.0
) -> HostTable:
    """Build a table with one row per record, in the given order."""
    columns = InventoryColumns.of([record.inventories for record in records], [record.used for record in records])
    trait_rows, trait_bits = bits_by_name([record.traits for record in records])
    profiles: list[Capabilities] = []
    profile = np.zeros(len(records), dtype=np.int32)
    for row, record in enumerate(records):
        if record.capabilities not in profiles:
            profiles.append(record.capabilities)
        profile[row] = profiles.index(record.capabilities)
    hosts = tuple(record.host for record in records)
    metrics = {name: np.full(len(records), np.nan) for record in records for name in record.metrics}
    for row, record in enumerate(records):
        for name, value in record.metrics.items():
            metrics[name][row] = value
    states = DeviceStates()
    return HostTable(
        hosts=hosts,
        nodes=tuple(record.node or record.host for record in records),
        uuids=tuple(record.uuid or record.host for record in records),
        trait_rows=trait_rows,
        trait_bits=trait_bits,
        disabled=np.array([record.disabled for record in records], dtype=np.bool_),
        forced_down=np.array([record.forced_down for record in records], dtype=np.bool_),
        last_seen=np.array([record.last_seen for record in records], dtype=np.float64),
        num_instances=np.array([record.num_instances for record in records], dtype=np.int64),
        num_io_ops=np.array([record.num_io_ops for record in records], dtype=np.int64),
        failed_builds=np.array([record.failed_builds for record in records], dtype=np.int64),
        profiles=tuple(profiles),
        profile=profile,
        device_states=states,
        devices=np.array([states.number(record.devices) for record in records], dtype=np.int32),
        aggregates=AggregateIndex.of(aggregates, hosts),
        instance_rows={uuid: row for row, record in enumerate(records) for uuid in record.instances},
        host_ips=tuple(canonical_address(record.host_ip) for record in records),
        disabled_reasons={row: record.disabled_reason for row, record in enumerate(records) if record.disabled},
        guests=TableGuests.of([record.guests for record in records]),
        taken_at=taken_at,
        metrics=metrics,
        cell_uuids=tuple(record.cell_uuid for record in records) if any(record.cell_uuid for record in records) else (),
        **columns._asdict(),
    )
