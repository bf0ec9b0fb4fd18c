# SPDX-License-Identifier: Apache-2.0
"""Comparison of whole decisions of several servers: the weights and the order of all hosts, for every server.

Nova's scheduler manager filters, weighs, chooses and consumes with its own code. Only Placement is replaced: a ledger
of the amounts that the servers of the request take.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, pairwise
from random import Random
from typing import Any

from nova import objects
from nova.scheduler import filters, host_manager, request_filter, weights
from nova.scheduler.manager import SchedulerManager
from nova.scheduler.utils import ResourceRequest
from nova.virt import hardware

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.host import NODE_TRAITS
from kilonova.model.host_devices import NOTHING
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import RankedHost
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.settings import SchedulerConfig
from scheduler_peer import nova_world
from support.decision_cases import CONFIG, DecisionCase
from support.random_clouds import Cloud, random_cloud, random_request

DECISIONS = "Decisions"
_HOSTS = 8
_ALTERNATES = 2
_CLOSE = 1e-9
_MULTIPLIERS = (0.0, 1.0, 1.0, 1.0, -1.0, 0.3)
_NEVER_NEGATIVE = ("soft_affinity", "soft_anti_affinity")
_WEIGHED = (
    *("ram", "cpu", "disk", "io_ops", "num_instances", "hypervisor_version", "build_failure", "pci"),
    *_NEVER_NEGATIVE,
)
_OF_DEVICES = {"NUMATopologyFilter", "PciPassthroughFilter"}
#: Extra specs that make the allocations of a server differ from the amounts of its flavor.
_RESOURCES: Mapping[str, tuple[str, ...]] = {
    "resources:VCPU": ("1", "0", "+2", "5"),
    "resources:MEMORY_MB": ("256", "0", "2048"),
    "resources:DISK_GB": ("0", "1", "60"),
}


REAL_USE, FULL_HOSTS, SIBLINGS, ONE_MORE = "real use", "full hosts", "siblings", "one more"
#: Intended differences in the servers after the first. Each is a change of Nova's scheduler that makes it Kilonova's.
CHANGES: Mapping[str, str] = {
    FULL_HOSTS: "hosts without room are not weighed; Nova weighs them until a filter removes them",
    REAL_USE: "placed servers use what they allocate; Nova subtracts the amounts of the flavor",
    ONE_MORE: "alternates suit one more server; Nova asks for the last server again, which its own host suits",
    SIBLINGS: "placed servers count for image properties; Nova does not see them, and fails for groups",
}


@dataclass(frozen=True)
class Question:
    """One request for ``count`` servers on a cloud, and the configuration."""

    cloud: Cloud
    spec: RequestSpec
    count: int
    config: SchedulerConfig


@dataclass(frozen=True)
class Choice:
    """The hosts with room for one server: host → weight, best first. ``chosen``: the first of them.

    ``error``: the exception that the decision raised.
    """

    weights: Mapping[str, float]
    error: Exception | None = None

    @property
    def chosen(self) -> str | None:
        return next(iter(self.weights), None)


@dataclass
class Ledger:
    """Placement: the amounts in use on each host. ``alternatives``: the amounts of one server, the preferred first."""

    records: Mapping[str, HostRecord]
    alternatives: Sequence[Mapping[str, int]]
    used: dict[str, dict[str, int]] = field(default_factory=dict)

    def fitting(self, host: str) -> Mapping[str, int] | None:
        """Return the amounts of one more server on the host, or None if it has no room."""
        return next((each for each in self.alternatives if self._has_room(host, each)), None)

    def take(self, host: str) -> Mapping[str, int]:
        """Count one more server on the host and return its amounts."""
        taken = self.fitting(host)
        assert taken is not None
        used = self._used(host)
        for name, amount in taken.items():
            used[name] = used.get(name, 0) + amount
        return taken

    def _used(self, host: str) -> dict[str, int]:
        return self.used.setdefault(host, dict(self.records[host].used))

    def _has_room(self, host: str, wanted: Mapping[str, int]) -> bool:
        used = self._used(host)
        inventories = {each.resource_class: each for each in self.records[host].inventories}
        for name, amount in wanted.items():
            have = inventories.get(name)
            if have is None or not have.min_unit <= amount <= have.max_unit or amount % have.step_size:
                return False
            if used.get(name, 0) + amount > (have.total - have.reserved) * have.allocation_ratio:
                return False
        return True


def questions(rng: Random) -> Iterator[Question]:
    """Yield requests for several servers, some of them volume-backed or in a group, on small clouds that fill up."""
    while True:
        cloud = random_cloud(rng, _HOSTS)
        records = tuple(
            replace(each, cell_uuid="", traits=each.traits | set(NODE_TRAITS), devices=NOTHING)
            for each in cloud.records
        )
        if rng.random() < 0.3:  # hosts with much room, which differ little
            records = tuple(
                replace(each, used={name: amount // 8 for name, amount in each.used.items()}, disabled=False)
                for each in records
            )
        if rng.random() < 0.2:  # a rack of equal hosts
            records = tuple(replace(records[0], host=each.host, instances=each.instances) for each in records)
        config = _some_config(rng)
        for _ in range(4):
            yield Question(replace(cloud, records=records), _some_request(rng), rng.randint(2, 6), config)


def _some_config(rng: Random) -> SchedulerConfig:
    if rng.random() < 0.3:
        return SchedulerConfig()
    return SchedulerConfig(
        enabled_filters=tuple(rng.sample(_filters(), rng.choice((0, 1, 2, 3, 4)))),
        max_io_ops_per_host=rng.choice((5, 8, 8)),
        max_instances_per_host=rng.choice((20, 40, 50)),
        metrics_weight_setting=rng.choice(((), ("power=-0.5", "cpu.percent=100.0"))),
        metrics_required=False,
        image_props_weight_multiplier=rng.choice((0.0, 0.0, 0.0, 0.0, 1.5)),
        **{
            f"{name}_weight_multiplier": abs(number) if name in _NEVER_NEGATIVE else number
            for name, number in ((each, rng.choice(_MULTIPLIERS)) for each in _WEIGHED)
        },
    )


@cache
def _filters() -> tuple[str, ...]:
    return tuple(sorted(nova_world.filter_classes().keys() & FILTERS.keys() - _OF_DEVICES))


def _some_request(rng: Random) -> RequestSpec:
    spec = random_request(rng)
    specs = dict(spec.flavor.extra_specs) if rng.random() < 0.3 else {}
    if rng.random() < 0.3:
        key = rng.choice(tuple(_RESOURCES))
        specs[key] = rng.choice(_RESOURCES[key])
    flavor = replace(
        spec.flavor,
        vcpus=rng.choice((1, 1, 2, 4)),
        memory_mib=rng.choice((256, 512, 1024, spec.flavor.memory_mib)),
        root_gib=rng.choice((0, 5, 20, 20)),
        ephemeral_gib=rng.choice((0, 0, 10)),
        extra_specs=specs,
    )
    image = spec.image
    if image is not None:  # other properties count in Kilonova alone, as the comparison of single rules shows
        known = {name: value for name, value in image.properties.items() if name in objects.ImageMetaProps.fields}
        image = replace(image, properties=known)
    return replace(
        spec,
        flavor=flavor,
        image=image,
        hints=spec.hints if rng.random() < 0.3 else {},
        instance_uuids=(),
        tried=(),
        source_cell=None,
        availability_zone=None,
        volume_backed=rng.random() < 0.4,
        ignore_hosts=frozenset({"NODE1"}) if rng.random() < 0.1 else frozenset(),
        force_host="node2" if rng.random() < 0.03 else None,
    )


def ours(question: Question) -> Iterator[Choice]:
    """Yield Kilonova's decision for each server, then the alternates. The generator places each server."""
    engine = build_engine(question.config)
    hosts = question.cloud.table().with_own_use()
    batch = Batch(engine, hosts, with_resources(_for_servers(question)), limit=_HOSTS)
    chosen: set[str] = set()
    for _ in range(question.count):
        ranked = batch.decide().ranked
        yield _choice(ranked)
        if not ranked:
            return
        chosen.add(ranked[0].host)
        batch.place(ranked[0].row)
    yield _choice(batch.alternates(_ALTERNATES, chosen))


def _choice(ranked: Sequence[RankedHost]) -> Choice:
    return Choice({each.host: each.score for each in ranked})


def _for_servers(question: Question) -> RequestSpec:
    return replace(question.spec, instance_uuids=tuple(f"new{number}" for number in range(question.count)))


def manager_of(config: SchedulerConfig) -> Any:
    """Return Nova's scheduler manager with the filters of a configuration and all weighers, without a database."""
    manager = SchedulerManager.__new__(SchedulerManager)
    of_hosts = manager.host_manager = host_manager.HostManager.__new__(host_manager.HostManager)
    of_hosts.filter_handler = filters.HostFilterHandler()
    of_hosts.enabled_filters = [nova_world.filter_classes()[name]() for name in config.enabled_filters]
    of_hosts.weight_handler = weights.HostWeightHandler()
    of_hosts.weighers = [cls() for cls in nova_world.weigher_classes().values()]
    return manager


class Theirs:
    """Nova's scheduler on one question, changed by some of the :data:`CHANGES`. Raises: what Nova raises."""

    def __init__(self, question: Question, changes: Collection[str] = ()) -> None:
        self._changes = changes
        nova_world.configure(question.config)
        self._question = question
        self._states = nova_world.host_states(question.cloud)
        nova_world.with_members(self._states, question.spec)
        self._spec, alternatives = request_of(question)
        self._ledger = Ledger({each.host: each for each in question.cloud.records}, alternatives)
        self._manager = manager_of(question.config)
        self._weights: Mapping[str, float] = {}
        weight_handler = self._manager.host_manager.weight_handler
        self._weigh = weight_handler.get_weighed_objects
        weight_handler.get_weighed_objects = self._keep_weights
        traits = ResourceRequest.from_request_spec(self._spec)
        self._hosts = [state for state in self._states if self._serves(state.host, traits)]
        self._index = 0

    def _keep_weights(self, weighers: Any, hosts: Any, spec: Any) -> Any:
        found = self._weigh(weighers, hosts, spec)
        self._weights = {each.obj.host: each.weight for each in found}
        return found

    def _serves(self, host: str, request: Any) -> bool:
        has = self._ledger.records[host].traits
        asked, closed = set(request._root_required), set(request._root_forbidden)
        for group in request._rg_by_id.values():
            asked |= group.required_traits
            closed |= group.forbidden_traits
        return asked <= has and not closed & has and self._ledger.fitting(host) is not None

    def decide(self) -> Choice:
        """Filter and weigh the hosts for the next server, and leave out those whose claim would fail."""
        self._spec.instance_uuid = nova_world.instance_uuid(f"new{self._index}")
        for state in self._states:
            state.allocation_candidates = [{"mappings": {}}]
        if FULL_HOSTS in self._changes:
            self._hosts = [state for state in self._hosts if self._ledger.fitting(state.host) is not None]
        self._hosts = self._manager._get_sorted_hosts(self._spec, self._hosts, self._index)
        found = [state.host for state in self._hosts if self._ledger.fitting(state.host) is not None]
        return Choice({host: self._weights[host] for host in found})

    def after(self, placed: Sequence[str]) -> Choice:
        """Place one more server, on the last of these hosts, and return the decision for the next one.

        After the last server of the request, return the alternates.
        """
        try:
            self._place(placed[-1])
            return self.decide() if len(placed) < self._question.count else self._alternates(placed)
        except Exception as error:  # noqa: BLE001  any error is an answer
            return Choice({}, error)

    def _place(self, host: str) -> None:
        """Claim the host and consume its resources."""
        (state,) = (each for each in self._hosts if each.host == host)
        taken = self._ledger.take(host)
        uuid = nova_world.instance_uuid(f"new{self._index}")
        self._manager._consume_selected_host(state, self._spec, instance_uuid=uuid)
        if REAL_USE in self._changes:
            flavor = self._question.spec.flavor
            state.vcpus_used += taken.get("VCPU", 0) - flavor.vcpus
            state.free_ram_mb += flavor.memory_mib - taken.get("MEMORY_MB", 0)
            state.free_disk_mb += (flavor.root_gib + flavor.ephemeral_gib - taken.get("DISK_GB", 0)) * 1024
        if SIBLINGS in self._changes:
            image = self._question.spec.image
            state.instances[uuid] = nova_world.instance(uuid, dict(image.properties) if image else {})
        self._index += 1

    def _alternates(self, chosen: Collection[str]) -> Choice:
        """Return the best hosts for one more server, without the chosen ones."""
        if ONE_MORE not in self._changes:
            self._index -= 1  # Nova filters for the last server again
        left = [(host, weight) for host, weight in self.decide().weights.items() if host not in chosen]
        return Choice(dict(left[:_ALTERNATES]))


def request_of(question: Question) -> tuple[Any, Sequence[Mapping[str, int]]]:
    """Return the request as Nova's object, and the amounts of its queries to Placement. Raises: nova_world.Refused."""
    spec = question.spec
    asked = nova_world.request_spec(spec)
    asked.instance_uuid, asked.num_instances = nova_world.instance_uuid("new0"), question.count
    asked.request_level_params = objects.RequestLevelParams()
    asked.requested_networks, asked.is_bfv = objects.NetworkRequestList(objects=[]), spec.volume_backed
    asked.requested_resources = []
    asked.ignore_hosts = sorted(spec.ignore_hosts)
    asked.force_hosts = [spec.force_host] if spec.force_host else []
    asked.force_nodes = []
    if asked.instance_group is not None:
        new = [nova_world.instance_uuid(f"new{number}") for number in range(question.count)]
        asked.instance_group.members = [*asked.instance_group.members, *new]
    asked.image = nova_world.image(spec.image)
    hardware.numa_get_constraints(asked.flavor, asked.image)
    nova_world.know_aggregates(question.cloud.aggregates)
    request_filter.process_reqspec(None, asked)
    request = ResourceRequest.from_request_spec(asked)
    alternatives = [_amounts(request)]
    if request.cpu_pinning_requested:
        alternatives.append(_amounts(ResourceRequest.from_request_spec(asked, enable_pinning_translate=False)))
    return asked, alternatives


def _amounts(request: Any) -> Mapping[str, int]:
    wanted: dict[str, int] = {}
    for group in request._rg_by_id.values():
        for name, amount in group.resources.items():
            wanted[name] = wanted.get(name, 0) + amount
    return wanted


def as_documented(case: DecisionCase) -> bool:
    """Tell whether both projects choose the hosts that the documentation names."""
    question = Question(Cloud(case.records, ()), case.spec, len(case.ours), CONFIG)
    mine = tuple(choice.chosen for choice in ours(question))[: question.count]
    nova = Theirs(question)
    theirs = [nova.decide().chosen]
    while len(theirs) < question.count:
        theirs.append(nova.after(theirs).chosen)
    return (mine, tuple(theirs)) == (case.ours, case.theirs)


def differs(one: Choice, other: Choice) -> bool:
    """Tell whether hosts, weights or order differ. Hosts with equal weights may be in any order."""
    if one.error or other.error:
        return True
    if one.weights.keys() != other.weights.keys():
        return True
    if not all(_close(weight, other.weights[host]) for host, weight in one.weights.items()):
        return True
    ordered = [other.weights[host] for host in one.weights]
    return any(after > before and not _close(after, before) for before, after in pairwise(ordered))


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)


def compared(question: Question) -> Iterator[tuple[bool, str | None, str]]:
    """Yield for each server whether both sides agree, the difference that explains a disagreement, and the example.

    Requests that Nova rejects yield nothing, and so do those on which single rules disagree: rules are compared alone.
    """
    try:
        nova = Theirs(question)
        first = nova.decide()
    except Exception:  # noqa: BLE001  any error rejects the request
        return
    placed: list[str] = []
    for mine in ours(question):
        theirs = nova.after(placed) if placed else first
        if differs(mine, theirs):
            if not placed and not _rules_agree(question):
                return
            why = _why(question, placed, mine) if placed else None
            yield False, why, f"server {len(placed)}: ours {mine}, theirs {theirs}: {question}"
            if why is None:
                return
        else:
            yield True, None, ""
        if mine.chosen is None:
            return
        placed = [*placed, mine.chosen]


def _why(question: Question, placed: Sequence[str], mine: Choice) -> str | None:
    """Return the fewest differences with which Nova decides as Kilonova does, or None."""
    for count in range(1, len(CHANGES) + 1):
        for changes in combinations(CHANGES, count):
            if not differs(mine, _changed(question, placed, changes)):
                return "; ".join(CHANGES[each] for each in changes)
    return None


def _changed(question: Question, placed: Sequence[str], changes: Collection[str]) -> Choice:
    """Return the decision of a changed Nova after the same choices."""
    nova = Theirs(question, changes)
    nova.decide()
    for number in range(1, len(placed)):
        nova.after(placed[:number])
    return nova.after(placed)


def _rules_agree(question: Question) -> bool:
    """Tell whether each filter and weigher alone agrees with Nova's on the first server."""
    engine = build_engine(question.config)
    hosts, states = question.cloud.table(), nova_world.host_states(question.cloud)
    spec = _for_servers(question)
    nova_world.with_members(states, spec)
    asked, _ = request_of(question)
    for name, rule in zip(question.config.enabled_filters, engine.filters, strict=True):
        theirs = [nova_world.passes(nova_world.filter_classes()[name](), state, asked) for state in states]
        if theirs != rule.passes(hosts, spec).tolist():
            return False
    for rule in engine.weighers:
        name = rule_name(rule)
        if name not in nova_world.weigher_classes():
            continue
        theirs = nova_world.shares(nova_world.weigher_classes()[name](), states, asked)
        (share,) = shares([rule], hosts, spec, ALL_ROWS, len(hosts))
        values = [0.0] * len(hosts) if share.values is None else share.values.tolist()
        if isinstance(theirs, Exception) or not all(map(_close, values, theirs)):
            return False
    return True
