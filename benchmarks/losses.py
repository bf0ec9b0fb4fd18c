# SPDX-License-Identifier: Apache-2.0
"""Time and memory to try the loss of each host: do its servers fit elsewhere?

Each host has 30 servers of 20 flavors. 7 % of the servers are in anti-affinity groups of up to three, 2 % in affinity
groups of two. *roomy*: hosts are 61 % full. *tight*: most hosts are full, so that some losses are tried server by
server. *tried*: every server is decided, for one of 50 hosts.

    python -m benchmarks losses [-- HOSTS]
"""

import resource
import sys
import time
from random import Random

from benchmarks.engine import engine_with
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.planning.cloud import Cloud
from kilonova.planning.losses import Losses
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import DEFAULT_FILTERS

_NOW = 1_000_000.0
_EACH = 30
_FLAVORS = [Flavor(str(number), f"m{number}", 1 + number % 8, 1024 * (1 + number), 10) for number in range(20)]
#: Name → memory of a host in MiB.
KINDS = {"roomy": 512 * 1024, "tight": 290 * 1024}


def planned_cloud(hosts: int, memory_mib: int) -> Cloud:
    chance = Random(1)
    specs = [with_resources(RequestSpec(flavor)) for flavor in _FLAVORS]
    groups: dict[str, dict[str, int]] = {}
    servers, records = [], []
    for row in range(hosts):
        used = {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}
        for number in range(_EACH):
            spec = chance.choice(specs)
            if used["MEMORY_MB"] + spec.flavor.memory_mib > memory_mib:
                continue
            for name, amount in spec.query.totals.items():
                used[name] += amount
            group = None
            if number < 2 and row % 3 != 2:
                group = f"anti-affinity {row // 3} {number}"
            elif number == 2:
                group = f"anti-affinity {row} alone"
            elif number > 27 and row % 3 == 0:
                group = f"affinity {row}"
            if group is not None:
                members = groups.setdefault(group, {})
                members[f"n{row}"] = members.get(f"n{row}", 0) + 1
            servers.append(
                PlannedServer(
                    uuid=f"s{len(servers):07}",
                    row=row,
                    spec=spec,
                    allocations={f"u{row}": spec.query.totals},
                    guest=guest_of(spec),
                    group_uuid=group,
                )
            )
        inventories = (
            Inventory("VCPU", 128, allocation_ratio=4.0),
            Inventory("MEMORY_MB", memory_mib),
            Inventory("DISK_GB", 10_000),
        )
        records.append(
            HostRecord(
                f"n{row}",
                inventories,
                uuid=f"u{row}",
                used=used,
                traits=frozenset(NODE_TRAITS),
                last_seen=_NOW,
                num_instances=_EACH,
            )
        )
    views = {uuid: GroupView(uuid, uuid.split()[0], 1, members) for uuid, members in groups.items()}
    table = build_host_table(records, taken_at=_NOW)
    return Cloud(table, engine_with(DEFAULT_FILTERS), servers, views)


def main(arguments: list[str]) -> None:
    size = int(arguments[0]) if arguments else 10_000
    for kind, memory_mib in KINDS.items():
        cloud = planned_cloud(size, memory_mib)
        losses = Losses(cloud)
        began, cpu = time.perf_counter(), time.process_time()
        left = [len(losses.of([row]).left_over) for row in range(size)]
        print(
            f"{kind}: {size:,} hosts, {len(cloud.servers):,} servers: {time.perf_counter() - began:.1f} s, "
            f"{time.process_time() - cpu:.1f} s of processor time, {sum(map(bool, left)):,} hosts with "
            f"{sum(left):,} servers left over, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB",
            flush=True,
        )
        every = Losses(cloud, tries_all=True)
        cpu = time.process_time()
        for row in range(0, size, 50):
            every.of([row])
        print(f"{kind}, tried: {(time.process_time() - cpu) * 50:.0f} s of processor time for all hosts", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
