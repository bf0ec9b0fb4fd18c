# SPDX-License-Identifier: Apache-2.0
"""Typed bodies against their schemas: equal names, and each value that a schema accepts fits the struct."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from kilonova.api.compute.bodies.flavors import NewFlavor
from kilonova.api.compute.bodies.moves import Evacuation, LiveMigration, Migration, Resize
from kilonova.api.compute.bodies.rebuild import Rebuild
from kilonova.api.compute.bodies.servers import CreateServers, NewServer
from kilonova.api.compute.schemas import flavors, server_evacuate, server_moves, server_rebuild, servers
from kilonova.api.operator.bodies.capacity import AskedCapacity
from kilonova.api.operator.bodies.explain import Explain, ExplainedFlavor, ExplainedImage
from kilonova.api.operator.schemas import capacity, explain
from kilonova.api.placement.bodies.allocations import ConsumerBody, ConsumerList
from kilonova.api.placement.bodies.inventories import ChangedInventory, Inventories, NewInventory
from kilonova.api.placement.bodies.reshaper import Reshape
from kilonova.api.placement.schemas import allocations, inventories
from kilonova.api.placement.schemas.validation import BodySchemas
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import Compiled, Schema, Schemas

UUID = str(uuid4())
AMOUNTS = {"VCPU": 1.0, "DISK_GB": 2**70, "MEMORY_MB": 1e300}
OWNERS = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "X"}
#: Values for properties; each schema accepts some of them.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 7.0, 1e300, 2**70, -1, 0.5, "", "1", "on", "auto", "AUTO", "VCPU", "host-1", "☃",
    UUID, "10.0.0.1", "::1", [], ["a"], [UUID], [{}], [{"path": "/x", "contents": ["y"]}], {}, {"a": "b"},
    {"a": [{"b": None}]}, {"vcpus": 2.0, "ram": 64, "extra_specs": {"a": "b"}}, {"properties": {"a": "b"}},
    {"a": "b", "c": ["d"]},
    {"name": "a", "flavorRef": 1}, [{"name": "default"}], [{"uuid": UUID, "port": None}],
    [{"source_type": "image", "boot_index": 0.0, "uuid": None, "volume_size": "1", "no_device": {}}],
    [{"source_type": "blank", "boot_index": None}],
    {UUID: {"resources": AMOUNTS, "generation": 1}}, {UUID: [UUID]},
    [{"resource_provider": {"uuid": UUID}, "resources": AMOUNTS}],
    {"VCPU": {"total": 8.0, "allocation_ratio": 2, "resource_provider_generation": 1}},
    {UUID: {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 8}}}},
    {UUID: {"allocations": {UUID: {"resources": AMOUNTS}}, **OWNERS}},
    {UUID: {"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 3}},
)  # fmt: skip


def under(key: str, schemas: Schemas) -> list[Schema]:
    """Return the schemas of the object under ``key`` of the body."""
    return [schema["properties"][key] for schema in schemas.by_version.values()]


def whole(schemas: Schemas) -> list[Schema]:
    return list(schemas.by_version.values())


OLD = [schema for version, schema in allocations.PUT.by_version.items() if version < (1, 12)]
SINCE_1_12 = [schema for version, schema in allocations.PUT.by_version.items() if version >= (1, 12)]
MIGRATIONS = [schema["properties"]["migrate"] for v, schema in server_moves.MIGRATE.by_version.items() if v >= (2, 56)]
BODIES: Mapping[type[msgspec.Struct], list[Schema]] = {
    CreateServers: whole(servers.CREATE),
    NewServer: under("server", servers.CREATE),
    NewFlavor: under("flavor", flavors.CREATE),
    Rebuild: under("rebuild", server_rebuild.REBUILD),
    Resize: under("resize", server_moves.RESIZE),
    Migration: MIGRATIONS,
    LiveMigration: under("os-migrateLive", server_moves.LIVE_MIGRATE),
    Evacuation: under("evacuate", server_evacuate.EVACUATE),
    AskedCapacity: whole(capacity.CAPACITY),
    Explain: whole(explain.EXPLAIN),
    ExplainedFlavor: [explain.FLAVOR],
    ExplainedImage: [explain.IMAGE],
    ConsumerList: OLD,
    ConsumerBody: SINCE_1_12,
    NewInventory: whole(inventories.CREATE),
    ChangedInventory: whole(inventories.UPDATE),
    Inventories: whole(inventories.REPLACE),
    Reshape: whole(allocations.RESHAPE),
}
SAMPLES: Mapping[type[msgspec.Struct], dict[str, Any]] = {
    CreateServers: {"server": {"name": "a", "flavorRef": "1", "networks": "none"}},
    NewServer: {"name": "a", "flavorRef": 1, "networks": "none"},
    NewFlavor: {"name": "a", "ram": 1.0, "vcpus": "1", "disk": 0},
    Rebuild: {"imageRef": UUID},
    Resize: {"flavorRef": "1"},
    LiveMigration: {"host": None, "block_migration": "auto", "disk_over_commit": False},
    Evacuation: {"onSharedStorage": False},
    AskedCapacity: {},
    Explain: {"flavor": "1"},
    ExplainedFlavor: {"vcpus": 1, "ram": 1.0},
    ConsumerList: {"allocations": [{"resource_provider": {"uuid": UUID}, "resources": {"VCPU": 1}}], **OWNERS},
    ConsumerBody: {"allocations": {UUID: {"resources": {"VCPU": 1}}}, **OWNERS},
    NewInventory: {"total": 1, "resource_class": "VCPU"},
    ChangedInventory: {"total": 1, "resource_provider_generation": 0},
    Inventories: {"inventories": {}, "resource_provider_generation": 0},
    Reshape: {"inventories": {}, "allocations": {}},
}


def compiled(schema: Schema, kind: type[msgspec.Struct]) -> Compiled:
    is_placement = kind.__module__.startswith("kilonova.api.placement")
    return (BodySchemas if is_placement else Schemas).compiled_by(schema)


def smallest(kind: type[msgspec.Struct], schema: Schema) -> dict[str, Any]:
    """Return a body with the required properties only, each with a value that the schema accepts."""
    found = {}
    for name in schema.get("required", ()):
        check = compiled(schema["properties"][name], kind)
        found[name] = next(value for value in (SAMPLES[kind][name], *VALUES) if check.is_valid(value))
    return found


def accepted(kind: type[msgspec.Struct], schema: Schema) -> Iterator[dict[str, Any]]:
    """Return each property's values that the schema accepts, in bodies without unneeded properties."""
    required = smallest(kind, schema)
    for name, inner in schema["properties"].items():
        check = compiled(inner, kind)
        yield from ({**required, name: value} for value in VALUES if check.is_valid(value))


@pytest.mark.parametrize("kind", BODIES)
def test_each_field_is_a_property_of_a_schema(kind: type[msgspec.Struct]) -> None:
    properties = set().union(*(schema["properties"] for schema in BODIES[kind]))
    assert {field.encode_name for field in msgspec.structs.fields(kind)} <= properties


@pytest.mark.parametrize("kind", BODIES)
def test_fields_without_a_default_are_required_by_each_schema(kind: type[msgspec.Struct]) -> None:
    required = {field.encode_name for field in msgspec.structs.fields(kind) if field.required}
    assert all(required <= set(schema.get("required", ())) for schema in BODIES[kind])


@pytest.mark.parametrize("kind", BODIES)
def test_each_value_that_a_schema_accepts_fits_the_struct(kind: type[msgspec.Struct]) -> None:
    tried = 0
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    for schema in BODIES[kind]:
        for body in accepted(kind, schema):
            held = read_typed(kind, body)
            for name in names.keys() & body.keys():
                value = getattr(held, names[name])
                if body[name] is None or isinstance(body[name], bool | int | float | str):
                    assert value == body[name]
                assert value is not msgspec.UNSET
            tried += 1
    assert tried >= len(names)


@pytest.mark.parametrize("kind", BODIES)
def test_a_field_that_a_version_lacks_is_refused_by_its_schema(kind: type[msgspec.Struct]) -> None:
    """So a struct never meets a value that no schema has checked."""
    for schema in BODIES[kind]:
        check, required = compiled(schema, kind), smallest(kind, schema)
        assert check.is_valid(required)
        for name in {field.encode_name for field in msgspec.structs.fields(kind)} - schema["properties"].keys():
            assert not [value for value in VALUES if check.is_valid({**required, name: value})], name


@pytest.mark.parametrize("kind", [Rebuild, NewServer])
def test_certificates_tell_null_from_absent(kind: type[msgspec.Struct]) -> None:
    assert getattr(read_typed(kind, SAMPLES[kind]), "trusted_image_certificates") is msgspec.UNSET  # noqa: B009
    null = {**SAMPLES[kind], "trusted_image_certificates": None}
    assert getattr(read_typed(kind, null), "trusted_image_certificates") is None  # noqa: B009


def test_a_rebuild_changes_the_given_columns_only() -> None:
    body = {"imageRef": UUID, "name": "b", "key_name": None, "OS-DCF:diskConfig": "AUTO", "accessIPv4": "10.0.0.1"}
    assert read_typed(Rebuild, body).columns() == {"name": "b", "key_name": None, "disk_config": "AUTO"}


def test_of_two_listed_allocations_of_one_provider_the_last_counts() -> None:
    items = [{"resource_provider": {"uuid": UUID}, "resources": {name: 1}} for name in ("VCPU", "DISK_GB")]
    consumer = read_typed(ConsumerList, {"allocations": items}).by_provider()
    assert consumer.allocations[UUID].resources == {"DISK_GB": 1}
