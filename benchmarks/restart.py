# SPDX-License-Identifier: Apache-2.0
"""Time until a restarted control process can make scheduling decisions, and memory of its mirror.

100,000 hosts with 40 traits each: first without servers, for the memory of a host alone, then with three servers on
each host and their 900,000 allocations. Measured are loading the mirror and its first snapshot; memory is the growth
of the process.

    python -m benchmarks restart [-- HOSTS [DATABASE ...]]
"""

import ctypes
import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks._seeded_cloud import add_hosts, fresh_database
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror

HOSTS = 100_000
DATABASES = ("sqlite", "postgresql")
SERVERS_ON_EACH = 3
GOAL_S, GOAL_BYTES_A_HOST = 10.0, 1024


def measure(url: str) -> None:
    """Load a mirror in this process, which must be new, and print time and memory."""
    database = Database(url)
    database.read().__enter__()  # the connection is opened now, so that the mirror's figures do not include it
    gc.collect()
    before = _resident_bytes()
    start, busy = time.perf_counter(), time.process_time()
    mirror = Mirror.follow(database)
    loaded = time.perf_counter() - start
    hosts = mirror.snapshot()
    ready, busy = time.perf_counter() - start, time.process_time() - busy
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that was needed only while loading is returned to the system
    grown = _resident_bytes() - before
    servers = len(mirror._state.instances)  # noqa: SLF001 - number of servers for the report
    size = f"{grown / len(hosts):.0f} bytes per host"
    size += " with its servers" if servers else f" (goal {GOAL_BYTES_A_HOST})"
    print(
        f"  {len(hosts)} hosts, {servers} servers: loaded {loaded:.1f} s, ready {ready:.1f} s, CPU time {busy:.1f} s "
        f"(goal {GOAL_S:.0f} s); {grown / 2**20:.0f} MiB, {size}",
        flush=True,
    )


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main(options: Sequence[str] = ()) -> None:
    if options[:1] == ["--load"]:
        measure(options[1])
        return
    hosts = int(options[0]) if options else HOSTS
    for backend, servers_on_each in product(options[1:] or DATABASES, (0, SERVERS_ON_EACH)):
        with fresh_database(backend) as database:
            start = time.perf_counter()
            add_hosts(database, hosts, servers_on_each=servers_on_each)
            print(f"{backend} (written in {time.perf_counter() - start:.0f} s)", flush=True)
            url = database.url.render_as_string(hide_password=False)
            subprocess.run([sys.executable, "-m", "benchmarks", "restart", "--", "--load", url], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
