# SPDX-License-Identifier: Apache-2.0
"""Compare Nova's filters, weighers and decisions with Kilonova's on the same random hosts and requests.

Runs in ``.venv-nova`` with Kilonova's sources on the path: ``make conformance-scheduler``. Fails on a disagreement that
``differences.py`` does not explain.
"""

import argparse
import logging
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kilonova.cli.wiring.rules import build_engine
from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.host_table import ALL_ROWS, HostTable
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS
from scheduler_peer import decisions, forecasts, nova_world, placement_queries, readings
from scheduler_peer.differences import DIFFERENCES, OF_READINGS, Case
from support import device_clouds
from support.decision_cases import CASES
from support.random_clouds import Cloud, random_cloud, random_request

_HOSTS = 25
_REQUESTS = 10
_PAIRS_PER_DECISION = 5
"""A decision compares all hosts under all rules, so that fewer of them take as long."""
_CLOSE = 1e-9

COMMON = SchedulerConfig(
    enabled_filters=tuple(FILTERS),
    isolated_images=("secret",),
    isolated_hosts=("node1", "node2", "node3", "node4", "node5"),
    max_io_ops_per_host=5,
    max_instances_per_host=30,
    num_instances_weight_multiplier=-0.5,
    image_props_weight_multiplier=1.5,
    metrics_weight_setting=("cpu.percent=100.0", "power=-0.5"),
    metrics_required=False,
    pci_alias=device_clouds.ALIASES,
)
OF_DEVICES = frozenset({"NUMATopologyFilter", "PciPassthroughFilter", "PCIWeigher"})
"""Rules that are compared on separate random clouds and requests with NUMA cells and PCI devices."""

OTHERS = {
    "IsolatedHostsFilter": {"restrict_isolated_hosts_to_isolated_images": False},
    "AggregateImagePropertiesIsolation": {
        "aggregate_image_properties_isolation_namespace": "os",
        "aggregate_image_properties_isolation_separator": "_",
    },
    "ImagePropertiesFilter": {"image_properties_default_architecture": "aarch64"},
    "MetricsFilter": {"metrics_weight_setting": ()},
    "MetricsWeigher": {"metrics_required": True},
    "ImagePropertiesWeigher": {"image_props_weight_setting": ("os_distro=2.5", "hw_architecture=-1.0")},
}
"""Rules that are compared a second time → their options for that."""


@dataclass
class Tally:
    """Counts of the results for one rule's pairs of host and request."""

    agree: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    passed: int = 0
    options: str = ""

    @property
    def pairs(self) -> int:
        return self.agree + self.explained.total() + len(self.unexplained)

    def judge(self, name: str, case: Case, *, same: bool, count: int = 1) -> None:
        if same:
            self.agree += count
            return
        why = next((each.why for each in DIFFERENCES.get(name, ()) if each.explains(case)), None)
        if why is not None:
            self.explained[why] += count
        else:
            self.unexplained += [f"ours {case.ours!r}, theirs {case.theirs!r}: {case.state} {case.spec}"] * count


Question = tuple[Cloud, list[tuple[RequestSpec, Any]]]


def questions(rng: Random) -> Iterator[Question]:
    """Yield clouds with requests, each in Kilonova's and Nova's form. Requests that Nova rejects are left out."""
    while True:
        asked: list[tuple[RequestSpec, Any]] = []
        while len(asked) < _REQUESTS:
            spec = random_request(rng)
            try:
                asked.append((spec, nova_world.request_spec(spec)))
            except nova_world.Refused:
                continue
        yield random_cloud(rng, _HOSTS), asked


def questions_of_devices(rng: Random) -> Iterator[Question]:
    """Yield clouds of hosts with NUMA cells and devices, with requests for them."""
    while True:
        asked: list[tuple[RequestSpec, Any]] = []
        while len(asked) < _REQUESTS:
            spec = rng.choice((device_clouds.some_request, device_clouds.asking_for_devices))(rng)
            try:
                asked.append((spec, nova_world.with_devices(nova_world.request_spec(spec))))
            except nova_world.Refused:
                continue
        cloud = random_cloud(rng, _HOSTS)
        records = tuple(replace(host, devices=device_clouds.some_host(rng)) for host in cloud.records)
        yield replace(cloud, records=records), asked


def compare_readings(name: str, count: int, seed: int) -> Tally:
    """Compare both sides' readings of the wanted number of flavors and images."""
    tally, rng = Tally(), Random(seed)
    for _ in range(count):
        reading = readings.read(name, rng)
        tally.passed += reading.ours != readings.REFUSED
        if reading.ours == reading.theirs:
            tally.agree += 1
            continue
        why = next((each.why for each in OF_READINGS.get(name, ()) if each.explains(reading)), None)
        if why is not None:
            tally.explained[why] += 1
        else:
            asked = f"{reading.spec} {[each.metadata for each in reading.aggregates]}"
            tally.unexplained.append(f"ours {reading.ours}, theirs {reading.theirs}: {asked}")
    return tally


def compare(
    config: SchedulerConfig,
    names: set[str],
    pairs: int,
    seed: int,
    ask: Callable[[Random], Iterator[Question]] = questions,
) -> dict[str, Tally]:
    """Compare the answers of the named rules on the wanted number of pairs."""
    nova_world.configure(config)
    engine = build_engine(config)
    ours = {**dict(zip(FILTERS, engine.filters, strict=True)), **dict(zip(WEIGHERS, engine.weighers, strict=True))}
    filters = {name: cls() for name, cls in nova_world.filter_classes().items() if name in names and name in ours}
    weighers = {name: cls() for name, cls in nova_world.weigher_classes().items() if name in names and name in ours}
    tallies = {name: Tally() for name in (*filters, *weighers)}
    for number, (cloud, asked) in enumerate(ask(Random(seed))):
        if number * _HOSTS * _REQUESTS >= pairs:
            return tallies
        hosts, states = cloud.table(), nova_world.host_states(cloud)
        for spec, theirs in asked:
            nova_world.with_members(states, spec)
            for name, rule in filters.items():
                _compare_filter(name, ours[name], rule, hosts, states, spec, theirs, tallies[name])
            for name, rule in weighers.items():
                _compare_weigher(name, ours[name], rule, hosts, states, spec, theirs, tallies[name])
    raise AssertionError


def compare_decisions(count: int, seed: int) -> Tally:
    """Compare the wanted number of decisions for single servers of requests for several."""
    tally = Tally()
    for case in CASES:
        if decisions.as_documented(case):
            tally.explained["a case of the documentation, on which both decide as it says"] += 1
        else:
            tally.unexplained.append(f"not as documented: {case}")
    for question in decisions.questions(Random(seed)):
        for same, why, example in decisions.compared(question):
            if same:
                tally.agree += 1
            elif why:
                tally.explained[why] += 1
            else:
                tally.unexplained.append(example)
            tally.passed += same
        if tally.pairs >= count:
            return tally
    raise AssertionError


def compare_forecast(count: int, seed: int) -> Tally:
    """Compare the hosts of the wanted number of servers that arrive and leave in a year."""
    tally = Tally()
    for step in forecasts.steps(count, seed):
        tally.passed += step.ours is not None
        if step.ours == step.theirs:
            tally.agree += 1
        elif step.tied:
            tally.explained["the weights of both hosts are equal but for rounding"] += 1
        else:
            tally.unexplained.append(str(step))
    return tally


def _compare_filter(
    name: str, rule: Any, nova: Any, hosts: HostTable, states: list[Any], spec: RequestSpec, theirs: Any, tally: Tally
) -> None:
    passed = rule.passes(hosts, spec).tolist()
    tally.passed += sum(passed)
    for row, state in enumerate(states):
        answer = nova_world.passes(nova, state, theirs)
        case = Case(rule, nova, hosts, states, spec, row, passed[row], answer)
        tally.judge(name, case, same=answer is passed[row])


def _compare_weigher(
    name: str, rule: Any, nova: Any, hosts: HostTable, states: list[Any], spec: RequestSpec, theirs: Any, tally: Tally
) -> None:
    answers = nova_world.shares(nova, states, theirs)
    try:
        (share,) = shares([rule], hosts, spec, ALL_ROWS, len(hosts))
        added: Any = [0.0] * len(hosts) if share.values is None else share.values.tolist()
    except RuleFailed as failure:
        added = failure
    if isinstance(answers, Exception) or isinstance(added, Exception):
        case = Case(rule, nova, hosts, states, spec, 0, added, answers)
        tally.judge(name, case, same=False, count=len(hosts))
        return
    for row, (one, other) in enumerate(zip(added, answers, strict=True)):
        tally.passed += bool(one)
        case = Case(rule, nova, hosts, states, spec, row, one, other)
        tally.judge(name, case, same=math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE))


def _print(results: dict[str, Tally]) -> None:
    width = max(map(len, results))
    print(f"{'rule':{width}}  {'pairs':>7}  {'agree':>7}  {'explained':>9}  {'UNEXPLAINED':>11}  {'pass/rated':>10}")
    for name, tally in results.items():
        numbers = f"{tally.pairs:7}  {tally.agree:7}  {tally.explained.total():9}  {len(tally.unexplained):11}"
        print(f"{name:{width}}  {numbers}  {tally.passed:10}")
        if tally.options:
            print(f"{'':{width}}    with other {tally.options}")
        for why, count in tally.explained.most_common():
            print(f"{'':{width}}    {count:5} x {why}")
        for example in tally.unexplained[:3]:
            print(f"{'':{width}}    !!! {example}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, default=10_000, help="pairs of host and request for each rule; decisions: a fifth"
    )
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("rules", nargs="*", help="compare only these rules")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    nova_world.start()
    theirs = set(nova_world.filter_classes()) | set(nova_world.weigher_classes())
    both = theirs & {*FILTERS, *WEIGHERS}
    wanted = set(arguments.rules) & both if arguments.rules else both
    results = compare(COMMON, wanted - OF_DEVICES, arguments.pairs, arguments.seed)
    if wanted & OF_DEVICES:
        of_devices = wanted & OF_DEVICES
        results |= compare(COMMON, of_devices, arguments.pairs, arguments.seed, questions_of_devices)
    results = dict(sorted(results.items()))
    if not arguments.rules or decisions.DECISIONS in arguments.rules:
        results[decisions.DECISIONS] = compare_decisions(arguments.pairs // _PAIRS_PER_DECISION, arguments.seed)
        nova_world.configure(COMMON)
    if not arguments.rules or forecasts.FORECAST in arguments.rules:
        results[forecasts.FORECAST] = compare_forecast(arguments.pairs // _PAIRS_PER_DECISION, arguments.seed)
        nova_world.configure(COMMON)
    placement_queries.configure()
    for name in readings.READINGS:
        if not arguments.rules or any(word in name for word in arguments.rules) or wanted & OF_DEVICES:
            results[name] = compare_readings(name, arguments.pairs, arguments.seed)
    for name, options in OTHERS.items():
        if name in wanted:
            again = compare(replace(COMMON, **options), {name}, arguments.pairs, arguments.seed + 1)
            results[f"{name}, again"] = replace(again[name], options=", ".join(options))
    _print(results)
    print("\nRemoved from this Nova:", ", ".join(sorted({*FILTERS, *WEIGHERS} - theirs)))
    print("Not in Kilonova:", ", ".join(sorted(theirs - {*FILTERS, *WEIGHERS})) or "nothing")
    return int(any(tally.unexplained for tally in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
