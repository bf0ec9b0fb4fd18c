# SPDX-License-Identifier: Apache-2.0
"""The Placement API over HTTP: candidates among many hosts, candidates among many provider trees, and allocations.

*flat*: equal hosts and a request for three resource classes. *trees*: hosts with eight devices each and a request with
eight granular groups on eight different devices. Kilonova's Placement runs on SQLite and on PostgreSQL with durable
commits. With ``--peer``, OpenStack's own Placement on PostgreSQL gets the same providers and requests in turn, and the
replies are compared. *cpu* is the server's CPU time per reply, without its database.

    python -m benchmarks placement [-- [--hosts N] [--trees N] [--databases sqlite,postgresql] [--only flat] [--peer]]

``--peer`` needs ``tools/peer.sh placement``. OpenStack's Placement would generate every combination of a tree before
returning the first; for *trees*, ``max_allocation_candidates`` limits it to 1,000.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.database_servers import DatabaseServer, PostgreSQL, running

from benchmarks._placement_data import DEVICE_CLASS, DEVICES_OF_A_TREE, SERVER, claims, flat_hosts, trees, uuid_of
from benchmarks._placement_servers import PEER_VENV, Target, drive, ours, peer

CLIENTS = 8
REPEATS, BUDGET_S, PUT_S, PEER_PATIENCE_S = 200, 5.0, 5.0, 120.0
PEER_CANDIDATES = 1_000
_SERVER = "resources=" + ",".join(f"{name}:{amount}" for name, amount in SERVER.items())
#: Case → longest acceptable median, in milliseconds.
GOALS_MS = {"limit=1": 1.0, "limit=1000": 5.0, "limit=1 after a PUT": 1.0, "8 groups, limit=1": 9.0}
GOAL_PUTS_PER_S = 1_000.0


def path_of_candidates(more: str = "") -> str:
    return f"/allocation_candidates?{_SERVER}{more}"


def path_of_devices(groups: int, more: str = "") -> str:
    wanted = "".join(f"&resources_{number}={DEVICE_CLASS}:1" for number in range(1, groups + 1))
    return path_of_candidates(f"{wanted}&group_policy=isolate{more}")


@dataclass(slots=True)
class Taken:
    """Latencies of one target's replies, and its average CPU time per reply. Units: milliseconds."""

    times: list[float] = field(default_factory=list)
    cpu: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def __str__(self) -> str:
        cpu = "" if self.cpu is None else f"  cpu {self.cpu:8.2f} ms"
        most = sorted(self.times)[int(len(self.times) * 0.95)]
        return f"p50 {self.median:10.2f} ms  p95 {most:10.2f} ms  best {min(self.times):10.2f} ms{cpu}"


def in_turn(targets: Sequence[Target], path: str, prepare: Callable[[Target], None] | None = None) -> list[Taken]:
    """Send the same request to all targets in turn, repeatedly; return the times of each.

    ``prepare``: called before each request and not timed.
    """
    connections = [target.connect() for target in targets]
    requests = [target.request("GET", path) for target in targets]
    taken = [Taken() for _ in targets]
    for connection, request in zip(connections, requests, strict=True):
        connection.ask(request)
    spent = [0.0] * len(targets)
    worked = [target.cpu_s() for target in targets]
    for _ in range(REPEATS):
        for number, (connection, request) in enumerate(zip(connections, requests, strict=True)):
            if spent[number] > BUDGET_S and len(taken[number].times) >= 3:
                continue
            if prepare is not None:
                prepare(targets[number])
            seconds, _ = connection.ask(request)
            spent[number] += seconds
            taken[number].times.append(seconds * 1e3)
    for target, before, one in zip(targets, worked, taken, strict=True):
        if prepare is None:  # with a preparation, the CPU time would include that of the preparation
            one.cpu = (target.cpu_s() - before) / len(one.times) * 1e3
    for connection in connections:
        connection.close()
    return taken


def report(case: str, targets: Sequence[Target], taken: Sequence[Taken]) -> None:
    goal = GOALS_MS.get(case)
    print(f"  {case}" + (f"  (goal <= {goal:g} ms)" if goal else ""))
    for target, one in zip(targets, taken, strict=True):
        ratio = "" if target.is_peer or not targets[-1].is_peer else f"  {taken[-1].median / one.median:8,.0f} x"
        print(f"    {target.name:<22} {one}{ratio}", flush=True)


_Answer = tuple[set[str], dict[str, str]]


def compare(targets: Sequence[Target], path: str, whole: Sequence[_Answer] | None = None) -> list[_Answer]:
    """Compare the replies of the targets as sets, and return them. Raises: SystemExit if they differ.

    A limited reply must be a subset of ``whole``, the target's reply without a limit, because each target may choose
    other candidates.
    """
    answers = [answer_of(target, path) for target in targets]
    for number, (target, (candidates, summaries)) in enumerate(zip(targets, answers, strict=True)):
        if whole is None:
            same = answers[number] == answers[0]
        else:
            same = candidates <= whole[number][0] and summaries.items() <= whole[number][1].items()
        if not same or len(candidates) != len(answers[0][0]):
            raise SystemExit(f"{target.name} and {targets[0].name} return different replies to {path}")
    print(f"    answers equal as sets: {len(answers[0][0]):,} candidates, {len(answers[0][1]):,} summaries")
    return answers


def answer_of(target: Target, path: str) -> _Answer:
    """Return the candidates and the provider summaries of a reply in a form that ignores order."""
    connection = target.connect()
    found = json.loads(connection.ask(target.request("GET", path))[1])
    connection.close()
    candidates = {json.dumps(one, sort_keys=True) for one in found["allocation_requests"]}
    if len(candidates) != len(found["allocation_requests"]):
        raise SystemExit(f"{target.name} returns a candidate twice")
    summaries: dict[str, Any] = found["provider_summaries"]
    for summary in summaries.values():
        summary["traits"].sort()
    return candidates, {uuid: json.dumps(summary, sort_keys=True) for uuid, summary in summaries.items()}


def measure_flat(targets: Sequence[Target], hosts: int) -> None:
    print(f"\n {hosts:,} flat hosts")
    whole: list[_Answer] | None = None
    for case, more in (("no limit", ""), ("limit=1000", "&limit=1000"), ("limit=1", "&limit=1")):
        report(case, targets, in_turn(targets, path_of_candidates(more)))
        answers = compare(targets, path_of_candidates(more), whole)
        whole = whole or answers
    bodies = claims(flat_hosts(hosts), seed=1)

    def put(target: Target) -> None:
        consumer, body = next(bodies)
        connection = target.connect()
        connection.ask(target.request("PUT", f"/allocations/{consumer}", body), 204)
        connection.close()

    mine = [target for target in targets if not target.is_peer]
    report("limit=1 after a PUT", mine, in_turn(mine, path_of_candidates("&limit=1"), put))
    for clients in (1, CLIENTS):
        goal = f"  (goal >= {GOAL_PUTS_PER_S:,.0f}/s)"
        print(f"  PUT /allocations, {clients} client{'s' if clients > 1 else ''}{goal}")
        rates = []
        for number, target in enumerate(targets):
            wanted = claims(flat_hosts(hosts), seed=1_000 * clients + number)
            made = (target.request("PUT", f"/allocations/{consumer}", body) for consumer, body in wanted)
            worked = target.cpu_s()
            rate, taken = drive(target, made, clients, PUT_S)
            rates.append((target, rate, taken, (target.cpu_s() - worked) / len(taken) * 1e3))
        for target, rate, taken, cpu in rates:
            ratio = "" if target.is_peer or not targets[-1].is_peer else f"  {rate / rates[-1][1]:8,.1f} x"
            median = statistics.median(taken) * 1e3
            print(f"    {target.name:<22} {rate:8,.0f} /s  p50 {median:8.2f} ms  cpu {cpu:6.2f} ms{ratio}", flush=True)


def measure_trees(targets: Sequence[Target], count: int) -> None:
    print(f"\n {count:,} trees of {DEVICES_OF_A_TREE} devices")
    compare(targets, path_of_devices(3, f"&in_tree={uuid_of('host0')}"))
    answering = [target for target in targets if not target.is_peer]
    path = path_of_devices(DEVICES_OF_A_TREE, "&limit=1")
    taken = in_turn(answering, path)
    for target in targets[len(answering) :]:
        try:
            seconds, _ = target.connect(PEER_PATIENCE_S).ask(target.request("GET", path))
        except TimeoutError:
            print(f"    {target.name}: no reply to the following request within {PEER_PATIENCE_S:g} s")
        else:
            answering.append(target)
            taken.append(Taken([seconds * 1e3]))
    report("8 groups, limit=1", answering, taken)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks placement --", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--trees", type=int, default=1_000)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--peer", action="store_true", help="also measure OpenStack's Placement")
    parser.add_argument("--only", choices=("flat", "trees"))
    options = parser.parse_args(arguments)
    if options.peer and not PEER_VENV.exists():
        raise SystemExit("OpenStack's Placement is not installed: run tools/peer.sh placement")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; shared by servers, client and database")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilonova-bench-")))
        postgresql: DatabaseServer | None = None
        if options.peer or "postgresql" in options.databases:
            postgresql = PostgreSQL(durable=True)
            stack.enter_context(running(postgresql))
        if options.only != "trees":
            with ExitStack() as servers:
                providers = flat_hosts(options.hosts)
                measure_flat(_started(servers, folder, "flat", postgresql, providers, options), options.hosts)
        if options.only != "flat":
            with ExitStack() as servers:
                providers = trees(options.trees)
                measure_trees(_started(servers, folder, "trees", postgresql, providers, options), options.trees)


def _started(
    stack: ExitStack, folder: Path, case: str, postgresql: DatabaseServer | None, providers: Any, options: Any
) -> list[Target]:
    started = time.perf_counter()
    targets = [
        stack.enter_context(
            ours(f"kilonova, {name}", folder / f"{case}_{name}", None if name == "sqlite" else postgresql, providers)
        )
        for name in options.databases.split(",")
    ]
    if options.peer:
        assert postgresql is not None
        most = PEER_CANDIDATES if case == "trees" else -1
        targets.append(stack.enter_context(peer(folder / case, postgresql, providers, most_candidates=most)))
    taken = time.perf_counter() - started
    print(f"\n {len(providers):,} providers stored and {len(targets)} servers started in {taken:.0f} s")
    return targets


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
