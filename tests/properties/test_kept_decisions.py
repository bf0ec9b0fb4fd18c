# SPDX-License-Identifier: Apache-2.0
"""Kept decisions equal decisions of the whole engine, bit by bit, after any changes of hosts and for any requests."""

import random
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_table import FloatArray, HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.row_changes import RowChanges
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from support.decision_outcomes import assert_same, outcome
from support.random_clouds import (
    DEVICES,
    FLAVORS,
    IMAGE_PROPERTIES_OF_GUESTS,
    METADATA,
    METRICS,
    NOW,
    Cloud,
    random_cloud,
    random_request,
)
from support.samples import sampled

DECISIONS = 100
ALIASES = (
    '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}',
    '{"name": "nic", "vendor_id": "8086", "product_id": "1572"}',
)


def engine_of(chance: random.Random) -> Engine:
    """Return an engine with many or few of the filters and all weighers, most of them with a multiplier."""
    share = chance.choice((0.0, 0.03, 0.03, 0.15, 0.3, 1.0))
    usual = DEFAULT_FILTERS if chance.random() < 0.5 else ()
    filters = [name for name in FILTERS if chance.random() < share or name in usual]
    chance.shuffle(filters)
    names = ("ram", "cpu", "disk", "io_ops", "num_instances", "hypervisor_version", "image_cache", "image_props")
    multipliers = {f"{name}_weight_multiplier": chance.choice((1.0, 1.0, -1.0, 0.0, 0.3)) for name in names}
    return build_engine(
        SchedulerConfig(
            enabled_filters=tuple(filters),
            max_instances_per_host=chance.choice((30, 50)),
            max_io_ops_per_host=chance.choice((6, 8)),
            host_subset_size=chance.choice((1, 1, 1, 3)),
            shuffle_best_same_weighed_hosts=chance.random() < 0.05,
            metrics_weight_setting=chance.choice(((), ("cpu.percent=-1.0", "power=0.01"))),
            metrics_required=chance.random() < 0.3,
            limit_tenants_to_placement_aggregate=chance.random() < 0.3,
            enable_isolated_aggregate_filtering=chance.random() < 0.3,
            pci_alias=ALIASES,
            isolated_images=("secret",),
            isolated_hosts=("node1", "node2") if chance.random() < 0.3 else (),
            **multipliers,
        )
    )


def requests_of(chance: random.Random) -> list[RequestSpec]:
    """Return a few requests: plain ones, and some with names, hints and extra specs that many hosts do not meet."""
    made = []
    for _ in range(chance.randint(1, 4)):
        if chance.random() < 0.25:
            spec = random_request(chance)
            if chance.random() < 0.7:
                spec = replace(spec, group=None, tried=(), source_cell=None)
            if chance.random() < 0.7:
                hints = {name: given for name, given in spec.hints.items() if not name.endswith("_host")}
                spec = replace(spec, hints=hints)
        else:
            flavor = Flavor(chance.choice(FLAVORS), "m1", chance.randint(1, 3), 64 * chance.randint(1, 8), 5)
            image = Image(chance.choice(("open", "secret")), properties=chance.choice(IMAGE_PROPERTIES_OF_GUESTS))
            spec = RequestSpec(flavor, chance.choice((None, image)), project_id=chance.choice(("p", "q", "x", "y")))
        made.append(with_resources(spec))
    return made


@dataclass
class LiveCloud:
    """Hosts that change, as a mirror shows them."""

    chance: random.Random
    hosts: HostTable
    is_up: np.ndarray
    now: float = NOW

    @classmethod
    def of(cls, chance: random.Random, cloud: Cloud) -> "LiveCloud":
        kinds = chance.choice((len(cloud.records), len(cloud.records), 1, 2))  # equal hosts have equal scores
        models = [replace(each, traits=each.traits | frozenset(NODE_TRAITS)) for each in cloud.records[:kinds]]
        records = tuple(
            replace(models[row % kinds], host=each.host, instances=each.instances)
            for row, each in enumerate(cloud.records)
        )
        hosts = replace(cloud, records=records).table()
        return cls(chance, hosts, np.array([chance.random() < 0.8 for _ in hosts.hosts], dtype=np.bool_))

    def live(self, changes: RowChanges | None = None) -> LiveHosts:
        """Return the present hosts; they change from now on. ``changes``: the log of the same hosts before."""
        hosts, up, silent_since = self.hosts, self.is_up.copy(), self.hosts.last_seen.copy()

        def last_seen(now: float) -> FloatArray:
            return np.where(up, now, silent_since)

        return LiveHosts(hosts, changes or RowChanges(len(hosts), self.chance.choice((4, 64, 4096))), last_seen)

    def change(self, live: LiveHosts, best: int | None) -> None:
        """Change a few rows, mostly by one server more or less. ``best``: the host that was chosen before."""
        chance, hosts = self.chance, self.hosts
        for _ in range(chance.choice((0, 1, 1, 1, 2, 5, 40))):
            row = chance.randrange(len(hosts)) if best is None or chance.random() < 0.6 else best
            match chance.randrange(8):
                case 0:
                    hosts.devices[row] = hosts.device_states.number(chance.choice(DEVICES))
                case 1:
                    name = chance.choice(tuple(METRICS))
                    if name in hosts.metrics:
                        hosts.metrics[name][row] = chance.choice((*METRICS[name], np.nan))
                case 2:
                    kind = guest_kind(chance.choice(FLAVORS), chance.choice(IMAGE_PROPERTIES_OF_GUESTS))
                    hosts.guests.count(row, kind)
                case _:
                    sign = chance.choice((1, 1, -1))
                    hosts.used[row] = np.maximum(
                        hosts.used[row] + sign * np.array([1, 64, 5])[: hosts.used.shape[1]], 0
                    )
                    hosts.num_instances[row] = max(hosts.num_instances[row] + sign, 0)
                    hosts.num_io_ops[row] = max(hosts.num_io_ops[row] + sign, 0)
            live.changes.mark(row)

    def turn(self, live: LiveHosts) -> LiveHosts:
        """Let time pass. Sometimes a service, an aggregate, or everything changes."""
        chance = self.chance
        self.now += chance.choice((0.0, 0.0, 0.1, 0.25, 4.75, 60.0))
        if chance.random() < 0.85:
            return live
        row = chance.randrange(len(self.hosts))
        match chance.randrange(5):
            case 0:
                self.is_up[row] = not self.is_up[row]
                self.hosts.last_seen[row] = self.now
            case 1:
                disabled, reasons = self.hosts.disabled.copy(), dict(self.hosts.disabled_reasons)
                disabled[row] = chance.random() < 0.5
                reasons[row] = chance.choice(("", "broken"))
                self.hosts = replace(self.hosts, disabled=disabled, disabled_reasons=reasons)
            case 2:
                forced_down = self.hosts.forced_down.copy()
                forced_down[row] = not forced_down[row]
                self.hosts = replace(self.hosts, forced_down=forced_down)
            case _:
                self.change_aggregates()
        return self.live(live.changes if chance.random() < 0.9 else None)

    def change_aggregates(self) -> None:
        """Change the hosts or the metadata of an aggregate, or add or delete one."""
        chance, hosts = self.chance, self.hosts
        known = list(hosts.aggregates.aggregates)
        place = chance.randrange(len(known) + 1)
        if place == len(known):
            number = 1 + max((each.id for each in known), default=0)
            known.append(Aggregate(number, f"new{number}", "new", (), some_metadata(chance)))
        elif chance.random() < 0.2:
            del known[place]
        elif chance.random() < 0.5:
            members = {*known[place].hosts} ^ {*chance.sample(hosts.hosts, min(3, len(hosts)))}
            known[place] = replace(known[place], hosts=tuple(sorted(members)))
        else:
            known[place] = replace(known[place], metadata=some_metadata(chance))
        index = AggregateIndex.of(known, hosts.hosts, isolation_version=hosts.aggregates.isolation_version + 1)
        self.hosts = replace(hosts, aggregates=index, memo=Memo())


def some_metadata(chance: random.Random) -> dict[str, str]:
    """Return metadata of an aggregate with some keys that rules read."""
    keys = chance.sample(tuple(METADATA), chance.choice((0, 1, 1, 2, 5)))
    made = {key: chance.choice(METADATA[key]) for key in keys}
    if chance.random() < 0.1:
        made["kilonova:only"] = chance.choice(("project=p", "project=q", "flavor=m1"))
    if chance.random() < 0.1:
        made["trait:CUSTOM_A"] = "required"
    return made


@settings(deadline=None, max_examples=sampled(1100, sample=40))
@given(seed=st.integers(0, 2**32))
def test_a_kept_decision_is_the_whole_engine_s(seed: int) -> None:
    chance = random.Random(seed)
    engine, requests = engine_of(chance), requests_of(chance)
    cloud = LiveCloud.of(chance, random_cloud(chance, chance.choice((1, 2, 8, 50, 90, 300, 300))))
    live = cloud.live()
    kept = KeptDecisions(engine, most_bytes=chance.choice((1_000, 2**20)), listed=chance.choice((1, 2, 5, 64)))
    limit = chance.choice((1, 3, 10, 30))
    best: int | None = None
    for number in range(DECISIONS):
        live = cloud.turn(live)
        cloud.change(live, best)
        spec, now = chance.choice(requests), cloud.now
        rngs = [np.random.default_rng(number) for _ in range(2)]
        mine = outcome(lambda: kept.decide(live, now, spec, limit=limit, rng=rngs[0]))  # noqa: B023
        whole = outcome(lambda: engine.decide(live.at(now), spec, limit=limit, rng=rngs[1]))  # noqa: B023
        assert_same(mine, whole)
        best = mine.ranked[0].row if isinstance(mine, Decision) and mine.ranked else None
