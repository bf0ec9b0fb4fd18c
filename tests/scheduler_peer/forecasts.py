# SPDX-License-Identifier: Apache-2.0
"""Comparison of a forecast with Nova: the hosts of all servers of one trace, which arrive and leave in virtual time.

Nova's scheduler manager filters, weighs and sorts with its own code. Placement is replaced by a ledger, and the host
states are what Nova would read from its database after each server that comes or leaves.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from nova.scheduler.utils import ResourceRequest

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.forecast.forecast import Beginning, Forecast, forecast
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import scenario_of
from kilonova.planning.forecast.server_kinds import Catalog, Kinds
from kilonova.planning.forecast.virtual_cloud import always_up
from kilonova.planning.forecast.workload import NONE
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from scheduler_peer import nova_world
from scheduler_peer.decisions import Ledger, Question, manager_of, request_of
from support.random_clouds import NOW, Cloud

FORECAST = "Forecast"
HOSTS = 200
_CLOSE = 1e-9
_CONFIG = SchedulerConfig(enabled_filters=(*DEFAULT_FILTERS, "AggregateInstanceExtraSpecsFilter", "NumInstancesFilter"))
_SIZES = ((16, 16_384, 300), (32, 65_536, 600), (64, 131_072, 1_200))
_FAST = {"aggregate_instance_extra_specs:ssd": "true"}
_FLAVORS = (
    Flavor("1", "tiny", 1, 1_024, 10),
    Flavor("2", "small", 2, 4_096, 20),
    Flavor("3", "large", 8, 32_768, 80),
    Flavor("4", "wide", 16, 8_192, 40),
    Flavor("5", "fast", 4, 16_384, 100, extra_specs=_FAST),
)
_IMAGES = (Image("plain", "plain"), Image("arm", "arm", properties={"hw_architecture": "aarch64"}))


@dataclass(frozen=True)
class Step:
    """One arrival: the hosts that both sides choose, None for a refusal. ``tied``: Nova's weights of both are equal."""

    server: int
    ours: str | None
    theirs: str | None
    tied: bool = False


def cloud_of(rng: Random) -> Cloud:
    """Return hosts of three sizes with x86 or ARM processors, some in an aggregate."""
    records = []
    for number in range(HOSTS):
        vcpus, memory, disk = rng.choice(_SIZES)
        inventories = (
            Inventory("VCPU", vcpus, max_unit=vcpus, allocation_ratio=4.0),
            Inventory("MEMORY_MB", memory, 512, max_unit=memory),
            Inventory("DISK_GB", disk, max_unit=disk),
        )
        capabilities = replace(
            HostRecord("any", ()).capabilities,
            supported_instances=((rng.choice(("x86_64", "x86_64", "aarch64")), "kvm", "hvm"),),
            hypervisor_version=rng.choice((8_002_000, 9_001_000)),
        )
        traits = frozenset(NODE_TRAITS)
        name = f"node{number}"
        records.append(HostRecord(name, inventories, traits=traits, capabilities=capabilities, last_seen=NOW))
    fast = Aggregate(1, "fast", "fast", tuple(each.host for each in rng.sample(records, 40)), {"ssd": "true"})
    return Cloud(tuple(records), (fast,))


def forecast_of(cloud: Cloud, count: int, seed: int) -> Forecast:
    """Return Kilonova's forecast of ``count`` arrivals in a year, on a cloud that gets full."""
    lifetimes = {"distribution": "lognormal", "median": "150d", "sigma": 1.0}
    plain = {
        "count": count - count // 10,
        "flavors": {"tiny": 1, "small": 2, "large": 4, "wide": 2, "fast": 1},
        "images": {"plain": 5, "arm": 1},
        "lifetimes": lifetimes,
    }
    grouped = {
        "count": count // 10,
        "flavors": {"small": 1},
        "group": {"policy": "anti-affinity", "size": 3},
        "lifetimes": lifetimes,
    }
    catalog = Catalog({each.name: each for each in _FLAVORS}, {each.name: each for each in _IMAGES})
    hosts = always_up(build_host_table(cloud.records, cloud.aggregates, taken_at=NOW), 60)
    return forecast(
        scenario_of({"length": "1y", "seed": seed, "interval": "1y", "arrivals": [plain, grouped]}),
        Beginning(hosts=hosts, kinds=Kinds(catalog)),
        [Policy(name="both", engine=build_engine(_CONFIG))],
        clock_ns=lambda: 0,
    )


class NovaCloud:
    """Nova's view of a cloud whose servers come and leave."""

    def __init__(self, cloud: Cloud) -> None:
        nova_world.configure(_CONFIG)
        self._cloud = cloud
        self._records = {each.host: each for each in cloud.records}
        self._states = {
            each.host: state for each, state in zip(cloud.records, nova_world.host_states(cloud), strict=True)
        }
        self._manager = manager_of(_CONFIG)
        handler = self._manager.host_manager.weight_handler
        self._weigh = handler.get_weighed_objects
        handler.get_weighed_objects = self._keep_weights
        self.weights: Mapping[str, float] = {}

    def _keep_weights(self, weighers: Any, hosts: Any, spec: Any) -> Any:
        found = self._weigh(weighers, hosts, spec)
        self.weights = {each.obj.host: each.weight for each in found}
        return found

    def choose(self, spec: RequestSpec) -> tuple[str | None, Mapping[str, int]]:
        """Return the host that Nova chooses for a new server, and the amounts that it allocates."""
        states = list(self._states.values())
        nova_world.with_members(states, spec)
        wanted, (amounts,) = request_of(Question(self._cloud, spec, 1, _CONFIG))
        ledger = Ledger(self._records, (amounts,))
        request = ResourceRequest.from_request_spec(wanted)
        for state in states:
            state.allocation_candidates = [{"mappings": {}}]
        candidates = [state for state in states if _has_traits(self._records[state.host], request)]
        candidates = [state for state in candidates if ledger.fitting(state.host) is not None]
        self.weights = {}
        found = self._manager._get_sorted_hosts(wanted, candidates, 0)
        return (found[0].host if found else None), amounts

    def count(self, host: str, amounts: Mapping[str, int], sign: int) -> None:
        """Add a server to a host, or remove it."""
        record = self._records[host]
        used = {**record.used}
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + sign * amount
        changed = replace(record, used=used, num_instances=record.num_instances + sign)
        self._records[host] = changed
        (self._states[host],) = nova_world.host_states(Cloud((changed,), self._cloud.aggregates))


def _has_traits(record: HostRecord, request: Any) -> bool:
    wanted, closed = set(request._root_required), set(request._root_forbidden)
    for group in request._rg_by_id.values():
        wanted |= group.required_traits
        closed |= group.forbidden_traits
    return wanted <= record.traits and not closed & record.traits


def steps(count: int, seed: int) -> Iterator[Step]:
    """Yield each arrival of a trace. Where the two differ, Nova's cloud goes on with Kilonova's choice."""
    cloud = cloud_of(Random(seed))
    found = forecast_of(cloud, count, seed)
    servers, rows = found.workload.servers, found.outcomes[0].first_row.tolist()
    nova = NovaCloud(cloud)
    members: dict[int, dict[str, int]] = defaultdict(dict)
    queue = [(at, 1, number) for number, at in enumerate(servers.arrival.tolist())]
    heapq.heapify(queue)
    placed: dict[int, tuple[str, Mapping[str, int]]] = {}
    while queue:
        _, arrives, number = heapq.heappop(queue)
        group = int(servers.group[number])
        if not arrives:
            host, amounts = placed.pop(number)
            nova.count(host, amounts, -1)
            members[group][host] = members[group].get(host, 0) - 1
            continue
        spec = found.workload.kinds[int(servers.kind[number])].spec
        if group != NONE:
            view = found.workload.groups[group]
            spec = replace(spec, group=replace(view, hosts={host: n for host, n in members[group].items() if n}))
        theirs, amounts = nova.choose(spec)
        ours = None if rows[number] == NONE else cloud.records[rows[number]].host
        yield Step(number, ours, theirs, _are_tied(nova.weights, ours, theirs))
        if ours is not None:
            placed[number] = ours, amounts
            nova.count(ours, amounts, 1)
            members[group][ours] = members[group].get(ours, 0) + 1
            heapq.heappush(queue, (float(servers.departure[number]), 0, number))


def _are_tied(weights: Mapping[str, float], ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours not in weights or theirs not in weights:
        return False
    return math.isclose(weights[ours], weights[theirs], rel_tol=_CLOSE, abs_tol=_CLOSE)
