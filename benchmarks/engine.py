# SPDX-License-Identifier: Apache-2.0
"""Time of one decision of the scheduling engine, by number of hosts.

Default filters, the six aggregate filters, every built-in weigher, 52 aggregates, several kinds of requests in turn.
``used``, ``num_instances``, ``num_io_ops`` and ``last_seen`` change before every decision. The first decision, which
fills the cache, is shown separately. ``explain`` evaluates every rule for every host, weighs all hosts that pass and
counts the hosts rejected by one rule only; ``nearest`` finds the smallest changes that make room for an impossible
request.

    python -m benchmarks engine [-- [--peer] HOSTS ...]

``--peer`` (needs ``tools/peer.sh nova``) runs Nova's own filter and weight handlers with the same hosts and requests
and compares the remaining hosts, their order and their scores. Kilonova gets all hosts, Nova only those that its
Placement would return, so Kilonova's time includes Placement's work and Nova's does not. Nova always sorts all
remaining hosts; Kilonova ranks only the best few, which is enough for a server.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS, Capabilities
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec, ResourceQuery
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.explanations.nearest_miss import nearest_misses
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig

SIZES = (100, 1_000, 10_000, 100_000)
GOALS_MS = {10_000: 0.5, 100_000: 6.0}
EXPLAIN_GOALS_MS = {10_000: 5.0}
AGGREGATE_FILTERS = (
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateTypeAffinityFilter",
)
LIMIT = 3
NOW = 1_700_000_000.0


KINDS = ("any host", "zone + tenant", "ssd extra spec")
PEER_SIZES = (1_000, 10_000)
PEER_REPEATS = 5
PEER_GOAL = 1_000
_CLOSE = 1e-9
_ROOT = Path(__file__).parents[1]
PEER_PYTHON = _ROOT / ".venv-nova" / "bin" / "python"


def engine_with(filters: tuple[str, ...]) -> Engine:
    return build_engine(SchedulerConfig(enabled_filters=filters))


def engine() -> Engine:
    return engine_with((*DEFAULT_FILTERS, *AGGREGATE_FILTERS))


def cloud(size: int, rng: np.random.Generator) -> HostTable:
    records, aggregates = hosts_and_aggregates(size, rng)
    return build_host_table(records, aggregates, taken_at=NOW)


def hosts_and_aggregates(size: int, rng: np.random.Generator) -> tuple[list[HostRecord], list[Aggregate]]:
    """Return hosts with three sets of capabilities in three zones, and 49 more aggregates with random members."""
    makes = [
        Capabilities(
            hypervisor_type="QEMU",
            hypervisor_version=version,
            supported_instances=(("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm")),
            cpu_info={"arch": "x86_64", "features": ["aes", "avx2"]},
        )
        for version in (6_002_000, 7_000_000, 8_000_000)
    ]
    inventory = (
        Inventory("VCPU", 64, 0, allocation_ratio=4.0),
        Inventory("MEMORY_MB", 262_144, 4_096),
        Inventory("DISK_GB", 4_000),
    )
    names = [f"compute{row:06d}" for row in range(size)]
    records = [
        HostRecord(
            name,
            inventory,
            used={
                "VCPU": int(rng.integers(0, 128)),
                "MEMORY_MB": int(rng.integers(0, 200_000)),
                "DISK_GB": int(rng.integers(0, 3_000)),
            },
            traits=frozenset({*NODE_TRAITS, *(("COMPUTE_STATUS_DISABLED",) if row % 97 == 0 else ())}),
            capabilities=makes[row % 3],
            disabled=row % 97 == 0,
            last_seen=NOW - float(rng.uniform(0, 20)),
            num_instances=int(rng.integers(0, 40)),
            num_io_ops=int(rng.integers(0, 6)),
            failed_builds=int(row % 211 == 0),
        )
        for row, name in enumerate(names)
    ]
    aggregates = [
        Aggregate(zone, f"zone-{zone}", f"zone{zone}", tuple(names[zone::3]), {"availability_zone": f"az{zone}"})
        for zone in range(3)
    ]
    metadata: list[dict[str, str]] = [
        {"ssd": "true"},
        {"gpu": "true", "instance_type": "gpu.large"},
        {"filter_tenant_id": "tenant-x", "filter_tenant_id2": "tenant-y,tenant-z"},
        {"os_distro": "windows,sles"},
        {"max_io_ops_per_host": "16"},
        {"max_instances_per_host": "80"},
        {"ram_weight_multiplier": "2.0"},
    ]
    for index in range(49):
        members = rng.choice(size, size=max(1, size // 60), replace=False)
        aggregates.append(
            Aggregate(
                index + 3,
                f"aggregate-{index}",
                f"aggregate{index}",
                tuple(names[row] for row in members),
                {**metadata[index % len(metadata)], "rack": str(index)},
            )
        )
    return records, aggregates


def requests() -> list[RequestSpec]:
    plain = Flavor("1", "m1.small", 1, 2_048, 20)
    image = Image("image", properties={"hw_architecture": "x86_64", "img_hv_type": "kvm", "os_distro": "ubuntu"})
    ssd = replace(
        plain, extra_specs={"aggregate_instance_extra_specs:ssd": "true", "capabilities:cpu_info:features": "<in> aes"}
    )
    return [
        with_resources(RequestSpec(plain, image, project_id="p")),
        with_resources(RequestSpec(plain, image, project_id="tenant-x", availability_zone="az1")),
        with_resources(RequestSpec(ssd, image, project_id="p")),
    ]


def stir(hosts: HostTable, rng: np.random.Generator) -> None:
    """Change the columns that claims and heartbeats change, in eight random rows."""
    rows = rng.integers(0, len(hosts), size=8)
    hosts.used[rows] += 1
    hosts.num_instances[rows] = (hosts.num_instances[rows] + 1) % 40
    hosts.num_io_ops[rows] = (hosts.num_io_ops[rows] + 1) % 6
    hosts.last_seen[rows] = NOW


def timings(
    chosen: Engine, hosts: HostTable, spec: RequestSpec, rng: np.random.Generator, repeats: int
) -> Iterator[float]:
    for _ in range(repeats):
        stir(hosts, rng)
        start = time.perf_counter()
        decision = chosen.decide(hosts, spec, limit=LIMIT)
        yield (time.perf_counter() - start) * 1e3
        assert len(decision.ranked) == min(LIMIT, decision.survivors)


def explain_timings(
    chosen: Engine, hosts: HostTable, spec: RequestSpec, rng: np.random.Generator, repeats: int
) -> Iterator[float]:
    for _ in range(repeats):
        stir(hosts, rng)
        start = time.perf_counter()
        story = explain(hosts, spec, chosen)
        alone = story.only_hindrance()
        decision = chosen.decide(hosts, spec, limit=LIMIT)
        yield (time.perf_counter() - start) * 1e3
        assert decision.survivors == int(story.passed.sum())
        assert sum(alone.values()) <= len(hosts) - decision.survivors


def nearest_ms(chosen: Engine, hosts: HostTable) -> float:
    spec = requests()[2]
    huge = replace(spec, flavor=replace(spec.flavor, vcpus=300), query=ResourceQuery())
    start = time.perf_counter()
    misses = nearest_misses(hosts, huge, chosen)
    assert misses
    return (time.perf_counter() - start) * 1e3


def compare_with_nova(sizes: tuple[int, ...]) -> None:
    if not PEER_PYTHON.exists():
        raise SystemExit("Nova is not installed: run tools/peer.sh nova")
    asked = {"sizes": sizes, "repeats": PEER_REPEATS, "filters": (*DEFAULT_FILTERS, *AGGREGATE_FILTERS)}
    print(f"Nova: median of {PEER_REPEATS}; 'defaults': with the default filters only; goal >= {PEER_GOAL:,} x")
    print(
        f"{'hosts':>7} {'request':<15} {'for Nova':>8} {'left':>7} {'Nova ms':>9} {'us/host':>8} {'defaults ms':>11} "
        f"{'ours ms':>8} {'ns/host':>8} {'ratio':>8}  same hosts left; how many in the same place with the same score"
    )
    with subprocess.Popen(
        [PEER_PYTHON, "-m", "benchmarks._nova_scheduler"],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": "src:tests:.", "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as nova:
        assert nova.stdin is not None
        assert nova.stdout is not None
        json.dump(asked, nova.stdin)
        nova.stdin.close()
        for size in sizes:
            line = nova.stdout.readline()
            if not line:
                raise SystemExit(f"benchmarks._nova_scheduler exited with {nova.wait()}")
            for number, theirs in enumerate(json.loads(line)):
                _print_beside(size, number, theirs)


def _print_beside(size: int, number: int, theirs: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    hosts, chosen, spec = cloud(size, rng), engine(), requests()[number]
    ranked = chosen.decide(hosts, spec, limit=size).ranked
    same = {each.host for each in ranked} == {host for host, _ in theirs["ranked"]}
    alike = sum(
        each.host == host and abs(each.score - weight) < _CLOSE
        for each, (host, weight) in zip(ranked, theirs["ranked"], strict=False)
    )
    best = bool(ranked) and ranked[0].host == theirs["ranked"][0][0]
    ours = statistics.median(timings(chosen, hosts, spec, rng, 300))
    print(
        f"{size:>7,} {KINDS[number]:<15} {theirs['given']:>8,} {len(ranked):>7,} {theirs['ms']:>9,.1f} "
        f"{theirs['ms'] * 1e3 / theirs['given']:>8.1f} {theirs['default_ms']:>11,.1f} {ours:>8.3f} "
        f"{ours * 1e6 / size:>8.1f} {theirs['ms'] / ours:>6,.0f} x  "
        f"{'yes' if same else 'NO'}; {alike:,}, the best {'too' if best else 'NOT'}",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks engine --")
    parser.add_argument("--peer", action="store_true", help="also measure Nova's filters and weighers")
    parser.add_argument("sizes", nargs="*", type=int, metavar="HOSTS")
    options = parser.parse_args(arguments)
    if options.peer:
        compare_with_nova(tuple(options.sizes) or PEER_SIZES)
    else:
        measure(tuple(options.sizes) or SIZES)


def measure(sizes: tuple[int, ...]) -> None:
    chosen = engine()
    print(f"{'hosts':>8} {'request':<15} {'left':>7} {'first ms':>9} {'median ms':>10} {'p99 ms':>8} {'goal ms':>8}")
    for size in sizes:
        rng = np.random.default_rng(1)
        hosts = cloud(size, rng)
        for kind, spec in zip(KINDS, requests(), strict=True):
            first = next(timings(chosen, hosts, spec, rng, 1))
            taken = sorted(timings(chosen, hosts, spec, rng, 300 if size <= 10_000 else 100))
            left = chosen.decide(hosts, spec, limit=LIMIT).survivors
            goal = GOALS_MS.get(size)
            print(
                f"{size:>8,} {kind:<15} {left:>7,} {first:>9.2f} {statistics.median(taken):>10.3f} "
                f"{taken[int(len(taken) * 0.99)]:>8.3f} {goal if goal is not None else '':>8}"
            )

    print(f"\n{'hosts':>8} {'request':<15} {'explain ms':>10} {'goal ms':>8} {'nearest ms':>10}")
    for size in sizes:
        rng = np.random.default_rng(1)
        hosts = cloud(size, rng)
        for kind, spec in zip(KINDS, requests(), strict=True):
            taken = sorted(explain_timings(chosen, hosts, spec, rng, 30))
            goal = EXPLAIN_GOALS_MS.get(size)
            print(f"{size:>8,} {kind:<15} {statistics.median(taken):>10.3f} {goal if goal is not None else '':>8}")
        print(f"{size:>8,} {'300 VCPU, ssd':<15} {'':>10} {'':>8} {nearest_ms(chosen, hosts):>10.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
