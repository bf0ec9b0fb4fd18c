# SPDX-License-Identifier: Apache-2.0
"""One million hosts: time and memory of loading the mirror, and decisions on it.

The hosts are equal and have four traits each; the database is SQLite. Before each decision, the best host of the
decision before takes a server. *new*: requests of 20 shapes that were not requested before. Decisions are measured in
processor time. `kept_decisions -- 1000000` measures them on hosts with random usage.

    python -m benchmarks million_hosts [-- HOSTS]
"""

import ctypes
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks._seeded_cloud import add_hosts, fresh_database
from benchmarks.engine import LIMIT, engine, requests
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.state import Assumption
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from kilonova.scheduler.resources import with_resources

HOSTS, TRAITS = 1_000_000, 4
DECISIONS, SHAPES, WHOLE = 400, 20, 9
GOAL_GIB, GOAL_KEPT_MS, GOAL_NEW_MS = 4.0, 2.0, 30.0


def load(url: str) -> None:
    """Load a mirror in this process, which must be new, and print its time and memory, and those of decisions."""
    database = Database(url)
    database.read().__enter__()  # the connection is opened now, so that the mirror's figures do not include it
    before = _resident_mib()
    start, busy = time.perf_counter(), time.process_time()
    mirror = Mirror.follow(database)
    with mirror.lock:
        hosts = len(mirror.live().hosts)
    ready, busy = time.perf_counter() - start, time.process_time() - busy
    gc.collect()
    most = _resident_mib("VmHWM")
    ctypes.CDLL(None).malloc_trim(0)  # memory that was needed only while loading is returned to the system
    print(
        f"{hosts:,} hosts ready in {ready:.0f} s, {busy:.0f} s of CPU time; mirror "
        f"{_resident_mib() - before:,.0f} MiB, at most {most:,.0f} MiB while loading (goal {GOAL_GIB} GiB)",
        flush=True,
    )
    _decide(mirror)
    print(f"process with kept decisions: {_resident_mib():,.0f} MiB", flush=True)


def _decide(mirror: Mirror) -> None:
    chosen = engine()
    kept = KeptDecisions(chosen)
    spec = replace(requests()[0], flavor=replace(requests()[0].flavor, flavor_id="any"))

    def decided(of: RequestSpec) -> Decision:
        with mirror.lock:
            return kept.decide(mirror.live(), time.time(), of, limit=LIMIT)

    first, decision = _taken_ms(lambda: decided(spec))
    again: list[float] = []
    for number in range(DECISIONS):
        _place(mirror, decision, f"claim{number}")
        taken, decision = _taken_ms(lambda: decided(spec))
        again.append(taken)
    new: list[float] = []
    for number in range(SHAPES):
        flavor = replace(spec.flavor, flavor_id=f"new{number}", memory_mib=1_024 + 64 * number)
        taken, _ = _taken_ms(lambda: decided(with_resources(replace(spec, flavor=flavor))))  # noqa: B023
        new.append(taken)
    whole: list[float] = []
    with mirror.lock:
        live, now = mirror.live(), time.time()
        for _ in range(WHOLE):
            taken, other = _taken_ms(lambda: chosen.decide(live.at(now), spec, limit=LIMIT))
            whole.append(taken)
        assert not differences(kept.decide(live, now, spec, limit=LIMIT), other)
    p90 = sorted(again)[int(len(again) * 0.9)]
    print(
        f"first decision {first:.0f} ms; whole engine {statistics.median(whole):.1f} ms; after one changed host "
        f"{statistics.median(again):.2f} ms, p90 {p90:.2f} ms (goal {GOAL_KEPT_MS}); new shape "
        f"{statistics.median(new):.1f} ms (goal {GOAL_NEW_MS})",
        flush=True,
    )


def _place(mirror: Mirror, decision: Decision, claim_id: str) -> None:
    """Count a server on the best host."""
    best = decision.ranked[0]
    amounts = {"VCPU": 1, "MEMORY_MB": 2_048, "DISK_GB": 20}
    mirror.assume(Assumption(claim_id, {best.uuid: amounts}, best.host, best.node))


def _taken_ms(decide: Callable[[], Decision]) -> tuple[float, Decision]:
    start = time.thread_time()
    decision = decide()
    return (time.thread_time() - start) * 1e3, decision


def _resident_mib(of: str = "VmRSS") -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{of}:")) / 1024


def main(options: Sequence[str] = ()) -> None:
    if options[:1] == ["--load"]:
        load(options[1])
        return
    with fresh_database("sqlite") as database:
        start = time.perf_counter()
        add_hosts(database, int(options[0]) if options else HOSTS, traits=TRAITS)
        print(f"written in {time.perf_counter() - start:.0f} s", flush=True)
        url = database.url.render_as_string(hide_password=False)
        subprocess.run([sys.executable, "-m", "benchmarks", "million_hosts", "--", "--load", url], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
