# SPDX-License-Identifier: Apache-2.0
"""One request for many servers with the real Neutron, beside as many ports that a client creates one by one.

Neutron runs in a process of its own, on SQLite, with the mechanism of simulated hosts. Each pair creates ports directly
and servers, in changing order. Neutron's CPU time tells what the machine's other work hides.

    python -m benchmarks many_ports [-- PAIRS [SERVERS]]
"""

import os
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from tests.support.real_neutron import start_neutron

from benchmarks.networks import Bench, running
from kilonova.network.cached_client import CachedClient
from kilonova.network.grouped_ports import GroupedPorts
from kilonova.network.neutron import Neutron

PAIRS, SERVERS = 3, 100
GOAL = 1.1
_PROJECT = "admin"
_TIMEOUT_S = 120.0
#: The ports that a client creates are stray, and counting them would be work of Neutron.
_NO_COUNT = "[neutron]\nstray_port_count_interval = 0\n"


class Cost(NamedTuple):
    """Seconds for all ports: by the clock, and of Neutron's CPU."""

    time: float
    neutron: float


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_network(client: Neutron) -> str:
    network: str = client.create("networks", {"project_id": _PROJECT, "name": "private"})["id"]
    owner = {"network_id": network, "project_id": _PROJECT}
    client.create("subnets", {**owner, "ip_version": 4, "cidr": "10.1.0.0/16"})
    modes = {"ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"}
    client.create("subnets", {**owner, "ip_version": 6, "cidr": "fd00:1::/64", **modes})
    return network


def make_ports(client: Neutron, network: str, count: int) -> None:
    """Create bound ports one by one, with the request that Kilonova sends."""
    for _ in range(count):
        server = {"device_id": str(uuid.uuid4()), "device_owner": "compute:nova", "binding:host_id": "node1"}
        client.create("ports", {"network_id": network, "project_id": _PROJECT, "admin_state_up": True, **server})


def measure(pid: int, act: Callable[[], object]) -> Cost:
    began, used = time.perf_counter(), cpu_of(pid)
    act()
    return Cost(time.perf_counter() - began, cpu_of(pid) - used)


def show(direct: Sequence[Cost], servers: Sequence[Cost]) -> None:
    for place, kind in enumerate(("time", "CPU of Neutron")):
        ports, built = ([cost[place] for cost in costs] for costs in (direct, servers))
        ratios = sorted(b / a for a, b in zip(ports, built, strict=True))
        print(
            f"  {kind:<15} ports {statistics.median(ports):6.2f} s, servers {statistics.median(built):6.2f} s, ratio "
            f"{statistics.median(ratios):5.2f} ({ratios[0]:.2f} - {ratios[-1]:.2f}, goal <= {GOAL:g})",
            flush=True,
        )


def main(options: Sequence[str] = ()) -> None:
    pairs = int(options[0]) if options else PAIRS
    count = int(options[1]) if len(options) > 1 else SERVERS
    with TemporaryDirectory(prefix="kilonova-bench-") as name, start_neutron(Path(name) / "neutron") as real:
        session = Session(auth=Token(real.url, "service"), timeout=_TIMEOUT_S)
        client = Neutron(Adapter(session, service_type="network"), retries=0)
        network = make_network(client)
        with running(CachedClient(GroupedPorts(client), extensions_s=600.0), _NO_COUNT) as process:
            bench = Bench(process)
            make_ports(client, network, 2)
            bench.build([{"uuid": network}], 2)
            direct, servers = list[Cost](), list[Cost]()
            for number in range(pairs):
                acts: list[tuple[list[Cost], Callable[[], object]]] = [
                    (direct, lambda: make_ports(client, network, count)),
                    (servers, lambda: bench.build([{"uuid": network}], count)),
                ]
                for costs, act in acts if number % 2 == 0 else reversed(acts):
                    costs.append(measure(real.pid, act))
                print(f"{count} servers of one request, and {count} ports, {number + 1} pairs:")
                show(direct, servers)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
