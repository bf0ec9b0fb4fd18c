# SPDX-License-Identifier: Apache-2.0
"""Every built-in rule reads exactly the keys that it declares.

Two methods: mappings record the keys that a rule looks up; and removing the keys that a rule does not declare must not
change its answer, while removing the declared ones must change the answer to some request.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.image_properties import present_name
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.unread import readers_of, with_names_in_use
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.host_table import ALL_ROWS, HostTable
from kilonova.scheduler.reads import Keys, Reads, reads_of
from kilonova.scheduler.request_filters import SWITCHES, configured_request_filters
from kilonova.scheduler.resources import RESOURCE_READS, resource_query
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS
from support.device_clouds import ALIASES
from support.random_clouds import METADATA, PROPERTIES, Cloud, random_cloud, random_request

SWITCHED_ON: dict[str, Any] = dict.fromkeys(SWITCHES.values(), True)
CONFIG = SchedulerConfig(
    isolated_images=("secret",),
    isolated_hosts=("node1", "node2"),
    max_io_ops_per_host=5,
    max_instances_per_host=30,
    image_props_weight_multiplier=1.0,
    image_cache_weight_multiplier=1.0,
    pci_alias=ALIASES,
    metrics_required=False,
    metrics_weight_setting=("cpu.percent=1.0", "power=-2.5"),
    **SWITCHED_ON,
)
#: Additional vocabulary, so that each declared key occurs in some request.
MORE_SPECS = {
    "accel:device_profile": ("fpga",),
    "hw:ephemeral_encryption": ("true", "false"),
    "hw:ephemeral_encryption_format": ("luks", "plain"),
    "hw:virtio_packed_ring": ("true",),
    "hw:sound_model": ("virtio", "usb"),
    "hw:tpm_version": ("1.2", "2.0"),
    "hw:tpm_model": ("tpm-crb",),
    "hw:tpm_secret_security": ("host",),
    "hw:mem_encryption": ("true",),
    "hw:mem_encryption_model": ("amd-sev-es",),
    "hw:pci_numa_affinity_policy": ("socket", "required", "legacy"),
    "hw:maxphysaddr_mode": ("emulate",),
    "hw:cpu_policy": ("dedicated", "mixed"),
    "hw:cpu_thread_policy": ("require", "isolate"),
    "hw:emulator_threads_policy": ("isolate",),
    "hw:cpu_dedicated_mask": ("0",),
    "hw:cpu_realtime": ("yes",),
    "hw:cpu_realtime_mask": ("0",),
    "hw:numa_nodes": ("1", "2"),
    "hw:numa_cpus.0": ("0",),
    "hw:numa_mem.0": ("64",),
    "hw:mem_page_size": ("large", "4"),
    "hw:pmem": ("gold",),
    "hw:nonsense": ("1",),
    "os:secure_boot": ("required",),
    "pci_passthrough:alias": ("gpu:1", "nic:1", "any:1"),
    "resources:VGPU": ("1",),
    "resources:PCPU": ("1",),
    "resources:NOSUCH": ("1",),
    "resources1:CUSTOM_A": ("1",),
    "trait:CUSTOM_A": ("required", "forbidden"),
    "trait:HW_CPU_HYPERTHREADING": ("required",),
    "trait1:CUSTOM_B": ("required",),
    "group_policy": ("isolate",),
    "else:where": ("a",),
}
MORE_PROPERTIES = {
    **{key.replace(":", "_", 1): values for key, values in MORE_SPECS.items() if key.startswith(("hw:", "os:"))},
    "hw_firmware_type": ("uefi",),
    "hw_firmware_stateless": ("true",),
    "hw_vif_model": ("e1000", "virtio"),
    "hw_disk_bus": ("scsi",),
    "hw_cdrom_bus": ("sata",),
    "hw_video_model": ("vga",),
    "hw_viommu_model": ("intel",),
    "hw_emulation_architecture": ("aarch64",),
    "vmware_adaptertype": ("ide",),
    "architecture": ("i386",),
    "trait:CUSTOM_A": ("required",),
    "trait:HW_CPU_HYPERTHREADING": ("required",),
    "unheard-of": ("a",),
}
MORE_METADATA = {
    "trait:CUSTOM_A": ("required",),
    "trait:CUSTOM_B": ("required", "no"),
    "rack": ("5",),
    **{cls.option: ("2", "-1") for cls in WEIGHERS.values()},
}
MORE_HINTS = {"group": ("g",), "unheard-of": ("a",)}

Answer = Callable[[HostTable, RequestSpec], Any]


def asked_of(rule: Any) -> Answer:
    """Return a function that evaluates the rule and returns a comparable answer."""
    if hasattr(rule, "passes"):
        return lambda hosts, spec: rule.passes(hosts, spec).tolist()
    if hasattr(rule, "weigh"):
        return lambda hosts, spec: (_plain(rule.factors(hosts, ALL_ROWS)), _plain(rule.weigh(hosts, spec, ALL_ROWS)))
    return lambda hosts, spec: _or_error(lambda: rule.apply(spec, hosts.aggregates).query)


def _plain(answer: Any) -> Any:
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


def _or_error(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except InvalidRequest as error:
        return error.message


def _query(_hosts: HostTable, spec: RequestSpec) -> Any:
    return resource_query(spec.flavor, spec.image)


RULES: dict[str, Any] = {
    name: cls.configured(CONFIG) if hasattr(cls, "configured") else cls()
    for name, cls in (*FILTERS.items(), *WEIGHERS.items())
} | {rule_name(each): each for each in configured_request_filters(CONFIG)}
ASKED: dict[str, tuple[Answer, Reads | None]] = {
    **{name: (asked_of(rule), reads_of(rule)) for name, rule in RULES.items()},
    "Placement's query": (_query, RESOURCE_READS),
}


class Noted(Mapping[str, Any]):
    """Mapping that records the keys that were looked up, including missing ones."""

    def __init__(self, values: Mapping[str, Any], noted: set[str]) -> None:
        self._values, self._noted = dict(values), noted

    def __getitem__(self, key: str) -> Any:
        self._noted.add(key)
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        self._noted.add(str(key))
        return key in self._values

    def items(self) -> Any:
        return self._values.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@cache
def worlds(seed: int) -> tuple[Cloud, RequestSpec]:
    rng = Random(seed)
    cloud, spec = random_cloud(rng, size=12), random_request(rng)
    cloud = replace(cloud, aggregates=tuple(_with_more(rng, each) for each in cloud.aggregates))
    theme = rng.choice(("", "", "", "pci"))  # keys of one theme must sometimes occur together
    specs, properties = _some(rng, MORE_SPECS, theme), _some(rng, MORE_PROPERTIES, theme)
    flavor = replace(spec.flavor, extra_specs={**spec.flavor.extra_specs, **specs})
    image = spec.image and replace(spec.image, properties={**spec.image.properties, **properties})
    hints = {**spec.hints, **{key: (value,) for key, value in _some(rng, MORE_HINTS).items()}}
    return cloud, replace(spec, flavor=flavor, image=image, hints=hints)


def _with_more(rng: Random, aggregate: Aggregate) -> Aggregate:
    return replace(aggregate, metadata={**aggregate.metadata, **_some(rng, MORE_METADATA)})


def _some(rng: Random, vocabulary: Mapping[str, tuple[str, ...]], theme: str = "") -> dict[str, str]:
    keys = sorted(key for key in vocabulary if theme in key)
    chosen = rng.sample(keys, rng.randint(0, min(5, len(keys))))
    return {key: rng.choice(vocabulary[key]) for key in chosen}


def without(cloud: Cloud, spec: RequestSpec, keep: Callable[[str, str], bool]) -> tuple[HostTable, RequestSpec]:
    """Return the host table and the request with only the keys that ``keep`` accepts."""
    specs = {key: value for key, value in spec.flavor.extra_specs.items() if keep("extra_specs", key)}
    hints = {key: value for key, value in spec.hints.items() if keep("hints", key)}
    image = spec.image
    if image is not None:
        image = replace(image, properties={k: v for k, v in image.properties.items() if keep("properties", k)})
    aggregates = tuple(
        replace(each, metadata={key: value for key, value in each.metadata.items() if keep("metadata", key)})
        for each in cloud.aggregates
    )
    changed = replace(spec, flavor=replace(spec.flavor, extra_specs=specs), image=image, hints=hints)
    return replace(cloud, aggregates=aggregates).table(), changed


def declared(name: str, cloud: Cloud, spec: RequestSpec) -> Callable[[str, str], bool]:
    reads = ASKED[name][1]
    assert reads is not None
    hosts = cloud.table()
    images = () if spec.image is None else (spec.image,)
    known = with_names_in_use(readers_of(Engine(), CONFIG, hosts), hosts, (spec.flavor,), images, complete=True)

    def is_declared(kind: str, key: str) -> bool:
        keys: Keys = getattr(reads, kind)
        spellings = {key, present_name(key)} if kind == "properties" else {key}
        return any(keys.has(each, known.in_use) for each in spellings)

    return is_declared


@pytest.mark.parametrize("name", ASKED)
def test_every_built_in_rule_says_what_it_reads(name: str) -> None:
    assert ASKED[name][1] is not None


@pytest.mark.parametrize("name", ASKED)
def test_what_a_rule_does_not_declare_makes_no_difference(name: str) -> None:
    ask = ASKED[name][0]
    for seed in range(40):
        cloud, spec = worlds(seed)
        assert ask(*without(cloud, spec, lambda _kind, _key: True)) == ask(
            *without(cloud, spec, declared(name, cloud, spec))
        ), seed


@pytest.mark.parametrize("name", ASKED)
def test_what_a_rule_looks_up_is_declared(name: str) -> None:
    """A rule may look up keys that other rules use; the test above shows that these do not affect its answer."""
    ask, reads = ASKED[name]
    for seed in range(15):
        cloud, spec = worlds(seed)
        noted: dict[str, set[str]] = {kind: set() for kind in ("extra_specs", "properties", "metadata", "hints")}
        watched = replace(
            spec,
            flavor=replace(spec.flavor, extra_specs=Noted(spec.flavor.extra_specs, noted["extra_specs"])),
            image=spec.image and replace(spec.image, properties=Noted(spec.image.properties, noted["properties"])),
            hints=Noted(spec.hints, noted["hints"]),
        )
        aggregates = tuple(replace(each, metadata=Noted(each.metadata, noted["metadata"])) for each in cloud.aggregates)
        ask(replace(cloud, aggregates=aggregates).table(), watched)
        is_declared = declared(name, cloud, spec)
        undeclared = [
            (kind, key)
            for kind, keys in noted.items()
            for key in keys
            if not getattr(reads, kind).elsewhere and not is_declared(kind, key)
        ]
        assert not undeclared, seed


@pytest.mark.parametrize("name", [name for name, (_, reads) in ASKED.items() if reads != Reads()])
def test_no_declaration_is_empty_talk(name: str) -> None:
    """Each kind of key that a rule declares changes its answer to some request."""
    ask, reads = ASKED[name]
    silent = {kind for kind in ("extra_specs", "properties", "metadata", "hints") if getattr(reads, kind) != Keys()}
    for seed in range(400):
        cloud, spec = worlds(seed)
        whole = ask(*without(cloud, spec, lambda _kind, _key: True))
        for kind in tuple(silent):
            if whole != ask(*without(cloud, spec, lambda each, _key, kind=kind: each != kind)):
                silent.discard(kind)
        if not silent:
            return
    assert not silent


def test_the_vocabulary_has_names_that_nobody_reads() -> None:
    assert "os_distro" in METADATA
    assert "os_distro" in PROPERTIES
    cloud, spec = worlds(1)
    assert not any(declared(name, cloud, spec)("hints", "unheard-of") for name in ASKED)
    assert not any(declared(name, cloud, spec)("extra_specs", "else:where") for name in ASKED)
