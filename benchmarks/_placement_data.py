# SPDX-License-Identifier: Apache-2.0
"""Resource providers, the same for Kilonova's and OpenStack's Placement, inserted directly into the tables of both."""

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

_NAMESPACE = uuid.UUID("2f0e1c56-9f0b-4f5e-8a55-0d3a3f6a7e10")
_ROWS = 10_000
#: Resource class → total, reserved, allocation ratio.
HOST = {"VCPU": (64, 0, 4.0), "MEMORY_MB": (262_144, 512, 1.0), "DISK_GB": (4_000, 0, 1.0)}
SERVER = {"VCPU": 2, "MEMORY_MB": 2_048, "DISK_GB": 20}
DEVICES_OF_A_TREE = 8
DEVICE_CLASS = "FPGA"
TRAITS = (
    "COMPUTE_ACCELERATORS",
    "COMPUTE_DEVICE_TAGGING",
    "COMPUTE_IMAGE_TYPE_AMI",
    "COMPUTE_IMAGE_TYPE_ARI",
    "COMPUTE_IMAGE_TYPE_ISO",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
    "COMPUTE_NET_VIF_MODEL_E1000E",
    "COMPUTE_NET_VIF_MODEL_VIRTIO",
    "COMPUTE_NODE",
    "COMPUTE_RESCUE_BFV",
    "COMPUTE_STORAGE_BUS_SATA",
    "COMPUTE_STORAGE_BUS_SCSI",
    "COMPUTE_STORAGE_BUS_VIRTIO",
    "COMPUTE_TRUSTED_CERTS",
    "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "COMPUTE_VOLUME_MULTI_ATTACH",
    "OWNER_NOVA",
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider to insert. ``parent``: index of its parent in the list of providers, None for a root."""

    uuid: str
    name: str
    inventories: Mapping[str, tuple[int, int, float]]
    traits: Sequence[str] = field(default=())
    aggregate: str | None = None
    parent: int | None = None


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))


def flat_hosts(count: int) -> list[Provider]:
    """Return equal hosts with 20 traits, distributed over ten aggregates."""
    return [
        Provider(uuid_of(f"host{number}"), f"host{number}", HOST, TRAITS, uuid_of(f"aggregate{number % 10}"))
        for number in range(count)
    ]


def trees(count: int) -> list[Provider]:
    """Return hosts with child providers for devices."""
    made: list[Provider] = []
    for provider in flat_hosts(count):
        parent = len(made)
        made.append(provider)
        for number in range(DEVICES_OF_A_TREE):
            name = f"{provider.name}-device{number}"
            made.append(Provider(uuid_of(name), name, {DEVICE_CLASS: (1, 0, 1.0)}, parent=parent))
    return made


def claims(providers: Sequence[Provider], seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield endlessly pairs of consumer uuid and body of PUT /allocations, each for one server on a random provider."""
    chooser = random.Random(seed)  # equal seeds give all targets the same sequence
    while True:
        provider = chooser.choice(providers)
        yield (
            str(uuid.UUID(int=chooser.getrandbits(128), version=4)),
            {
                "allocations": {provider.uuid: {"resources": SERVER}},
                "project_id": "bench-project",
                "user_id": "bench-user",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            },
        )


def fill(connection: sa.Connection, tables: Mapping[str, sa.Table], providers: Sequence[Provider]) -> None:
    """Insert providers into a database that has a schema but no data; columns that the schema lacks are skipped."""
    now = datetime.now(UTC).replace(tzinfo=None)
    class_ids = _ids(connection, tables["resource_classes"])
    trait_ids = _ids(connection, tables["traits"])
    roots = [number if one.parent is None else one.parent for number, one in enumerate(providers)]

    def put(table: str, rows: Iterator[dict[str, Any]]) -> None:
        columns = {column.name for column in tables[table].columns}
        kept = [{name: value for name, value in row.items() if name in columns} for row in rows]
        for start in range(0, len(kept), _ROWS):
            connection.execute(sa.insert(tables[table]), kept[start : start + _ROWS])

    put(
        "resource_providers",
        (
            {
                "id": number + 1,
                "uuid": one.uuid,
                "name": one.name,
                "generation": 1,
                "root_provider_id": roots[number] + 1,
                "parent_provider_id": None if one.parent is None else one.parent + 1,
                "created_at": now,
                "updated_at": now,
            }
            for number, one in enumerate(providers)
        ),
    )
    put(
        "inventories",
        (
            {
                "resource_provider_id": number + 1,
                "resource_class_id": class_ids[name],
                "total": total,
                "reserved": reserved,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
                "allocation_ratio": ratio,
                "capacity": int((total - reserved) * ratio),
                "used": 0,
                "created_at": now,
                "updated_at": now,
            }
            for number, one in enumerate(providers)
            for name, (total, reserved, ratio) in one.inventories.items()
        ),
    )
    put(
        "resource_provider_traits",
        (
            {"resource_provider_id": number + 1, "trait_id": trait_ids[name], "created_at": now, "updated_at": now}
            for number, one in enumerate(providers)
            for name in one.traits
        ),
    )
    aggregates = {
        name: number for number, name in enumerate(sorted({p.aggregate for p in providers if p.aggregate}), 1)
    }
    put(
        "placement_aggregates",
        ({"id": number, "uuid": name, "created_at": now, "updated_at": now} for name, number in aggregates.items()),
    )
    put(
        "resource_provider_aggregates",
        (
            {"resource_provider_id": number + 1, "aggregate_id": aggregates[one.aggregate], "created_at": now}
            for number, one in enumerate(providers)
            if one.aggregate
        ),
    )
    if connection.dialect.name == "postgresql":  # PostgreSQL's sequences are not advanced by inserts of explicit ids
        for name in ("resource_providers", "placement_aggregates"):
            connection.execute(
                sa.text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), coalesce(max(id), 0) + 1) FROM {name}")
            )


def _ids(connection: sa.Connection, table: sa.Table) -> dict[str, int]:
    return dict(connection.execute(sa.select(table.c.name, table.c.id)).tuples().all())
