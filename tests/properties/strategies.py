# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for clusters and requests from small vocabularies, so that rules often match."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from kilonova.model.ability import Ability
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS, Capabilities
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import POLICIES, GroupView
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_records import HostRecord
from support.random_clouds import (
    CELLS,
    CPUS,
    DEVICES,
    EXTRA_SPECS,
    EXTRAS,
    FLAVORS,
    IMAGE_PROPERTIES_OF_GUESTS,
    INSTANCES,
    LAST_SEEN,
    METADATA,
    METRICS,
    NAMES,
    NOW,
    PROJECTS,
    PROPERTIES,
    QUERIES,
    TRIPLES,
    Cloud,
    inventories,
    random_query,
)

__all__ = ["NOW", "Cloud", "clouds", "requests"]


def _some(vocabulary: dict[str, tuple[str, ...]], most: int) -> st.SearchStrategy[dict[str, str]]:
    """Return random keys, each with one of its own values; the first keys are more frequent."""
    pairs = [(key, value) for key, values in vocabulary.items() for value in values]
    first = [(key, value) for key in list(vocabulary)[:2] for value in vocabulary[key]]
    return st.lists(st.sampled_from([*pairs, *first, *first]), max_size=most).map(dict)


capabilities = st.builds(
    Capabilities,
    hypervisor_type=st.sampled_from(("QEMU", "a", "5")),
    hypervisor_version=st.sampled_from((0, 6_002_000, 7_000_001)),
    supported_instances=st.lists(st.sampled_from(TRIPLES), max_size=3, unique=True).map(tuple),
    cpu_info=st.sampled_from(CPUS),
    extra=st.sampled_from(EXTRAS),
    abilities=st.sampled_from((None, None, tuple(Ability), (), ("cold-migrate", "fly"), ("live-migrate", "rebuild"))),
)


_kinds = st.builds(guest_kind, st.sampled_from(FLAVORS), st.sampled_from(IMAGE_PROPERTIES_OF_GUESTS))
_queries = st.sampled_from(QUERIES) | st.randoms(use_true_random=False).map(random_query).map(json.dumps)
rarely = st.integers(0, 7).map(lambda number: number == 7)


def records(name: str) -> st.SearchStrategy[HostRecord]:
    return st.builds(
        HostRecord,
        host=st.just(name),
        inventories=st.builds(
            inventories,
            st.integers(1, 4),
            st.sampled_from((1.0, 1.5, 16.0)),
            st.sampled_from((0, 512)),
            st.sampled_from((1, 1, 5)),
        ),
        used=st.fixed_dictionaries({"VCPU": st.integers(0, 12), "MEMORY_MB": st.integers(0, 3_000)}),
        traits=st.sampled_from(
            [
                frozenset({*NODE_TRAITS, *each})
                for each in ((), (), (), ("CUSTOM_A",), ("COMPUTE_STATUS_DISABLED",), ("CUSTOM_A", "CUSTOM_B"))
            ]
        ),
        capabilities=capabilities,
        disabled=rarely,
        forced_down=rarely,
        last_seen=st.sampled_from(LAST_SEEN),
        num_instances=st.integers(0, 40),
        num_io_ops=st.integers(0, 8),
        failed_builds=st.integers(0, 3),
        guests=st.lists(_kinds, max_size=3).map(tuple),
        metrics=st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in METRICS.items()}),
        cell_uuid=st.sampled_from(("", *CELLS)),
        host_ip=st.sampled_from(("10.0.0.1", "10.0.1.1", "192.168.0.1")),
        devices=st.sampled_from(DEVICES),
    )


@st.composite
def clouds(draw: st.DrawFn) -> Cloud:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    homes = draw(st.lists(st.integers(0, len(NAMES)), min_size=len(INSTANCES), max_size=len(INSTANCES)))
    hosts = [
        replace(
            draw(records(name)),
            instances=tuple(uuid for uuid, home in zip(INSTANCES, homes, strict=True) if home == row),
        )
        for row, name in enumerate(names)
    ]
    aggregates = [
        Aggregate(
            number,
            f"u{number}",
            f"aggregate{number}",
            tuple(name for bit, name in enumerate(NAMES) if members >> bit & 1),
            draw(_some(METADATA, 4)),
        )
        for number, members in enumerate(draw(st.lists(st.integers(0, 2 ** len(NAMES) - 1), max_size=6)))
    ]
    return Cloud(tuple(hosts), tuple(aggregates))


flavors = st.builds(
    Flavor,
    flavor_id=st.sampled_from(FLAVORS),
    name=st.sampled_from(("m1", "m2", "m3")),
    vcpus=st.integers(1, 6),
    memory_mib=st.integers(1, 2_048),
    root_gib=st.sampled_from((0, 5, 7, 50)),
    extra_specs=st.just({}) | _some(EXTRA_SPECS, 2),
)
images = st.none() | st.builds(Image, id=st.sampled_from(("open", "secret")), properties=_some(PROPERTIES, 3))
groups = st.none() | st.builds(
    GroupView,
    uuid=st.just("group"),
    policy=st.sampled_from((*POLICIES, "anti-affinity")),
    max_server_per_host=st.integers(1, 3),
    hosts=st.dictionaries(st.sampled_from(NAMES[:4]), st.integers(0, 3), min_size=1, max_size=4),
)
_uuids = st.lists(st.sampled_from((*INSTANCES, "unknown")), max_size=3).map(tuple)
requests = st.builds(
    RequestSpec,
    flavor=flavors,
    image=images,
    project_id=st.sampled_from(PROJECTS),
    instance_uuids=_uuids,
    availability_zone=st.sampled_from((None, None, "a", "b", "nova")),
    hints=st.fixed_dictionaries(
        {},
        optional={
            "different_host": _uuids,
            "same_host": _uuids,
            "build_near_host_ip": st.just(("10.0.0.9",)),
            "query": st.tuples(_queries),
            "cidr": st.sampled_from((("/24",), ("/16",), ("/0",))),
        },
    ),
    ignore_hosts=st.sampled_from([frozenset(each) for each in ((), (), ("node1",), ("NODE1", "node2"))]),
    group=groups,
    tried=st.lists(st.sampled_from(NAMES).map(lambda name: (name, name)), max_size=2).map(tuple),
    source_cell=st.sampled_from((None, *CELLS)),
)
