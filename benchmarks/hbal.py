# SPDX-License-Identifier: Apache-2.0
"""Balance per move of ``rebalance --objective spread``, beside Ganeti's hbal, on the clusters of Ganeti's tests.

Debian's packages and the source archive are fetched into a temporary folder, with a list of sources of its own, and
removed afterwards. Each cluster is converted: all online nodes are one group; instances keep CPUs and memory, and have
external disks, because hbal moves local disks only as pairs of mirrors, which Kilonova does not have. The CPUs of nodes
count four times, as overcommitted. hbal ignores its
dynamic load and moves instances as long as it finds any gain.

    python -m benchmarks hbal
"""

import os
import re
import shutil
import statistics
import subprocess
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Limits
from kilonova.planning.planned_server import PlannedServer
from kilonova.planning.rebalance import Objective, RebalanceRequest, rebalance
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig

_PACKAGES = ("ganeti-htools-3.0", "libpcre3")
_SOURCE = "ganeti"
_OVERCOMMIT = 4
_RANDOM = 10
#: Smaller differences of deviations are rounding errors.
_EQUAL = 1e-6
_IPOLICY = (
    "|128,1,1024,1,1,1|1,1,1,1,1,1;9999999,999,99999999,16,8,999|diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext"
    "|1.0|999.0"
)
_STEP = re.compile(r"^\s*\d+\.\s+(\S+)\s+(\S+)\s+=>\s+(\S+)")
Move = tuple[str, str]
"""Instance and new node."""


@dataclass(frozen=True)
class Cluster:
    """``nodes``: name → memory, memory of the node itself, CPUs. ``instances``: name → memory, CPUs, node."""

    name: str
    nodes: dict[str, tuple[int, int, int]]
    instances: dict[str, tuple[int, int, str]]

    def written(self) -> str:
        """Return the cluster in the text format of hbal."""
        lines = ["group-01|fake-uuid-01|preferred||", ""]
        for name, (memory, own, cpus) in self.nodes.items():
            free = memory - own - sum(each[0] for each in self.instances.values() if each[2] == name)
            lines.append(f"{name}|{memory}|{own}|{free}|9999999|9999999|{cpus}|N|fake-uuid-01|1")
        lines.append("")
        for name, (memory, cpus, node) in self.instances.items():
            lines.append(f"{name}|{memory}|1024|{cpus}|running|Y|{node}||ext||1")
        return "\n".join([*lines, "", "", _IPOLICY, f"group-01{_IPOLICY}", ""])

    def cloud(self) -> Cloud:
        rows = {name: row for row, name in enumerate(self.nodes)}
        servers = []
        for name, (memory, cpus, node) in self.instances.items():
            spec = with_resources(RequestSpec(Flavor(f"{cpus}-{memory}", "f", cpus, memory, 0)))
            held = {node: {"VCPU": cpus, "MEMORY_MB": memory}}
            servers.append(PlannedServer(uuid=name, row=rows[node], spec=spec, allocations=held, guest=guest_of(spec)))
        records = [
            HostRecord(
                name,
                (Inventory("VCPU", cpus), Inventory("MEMORY_MB", memory, reserved=own)),
                traits=frozenset(NODE_TRAITS),
                instances=tuple(uuid for uuid, each in self.instances.items() if each[2] == name),
                used={
                    "VCPU": sum(each[1] for each in self.instances.values() if each[2] == name),
                    "MEMORY_MB": sum(each[0] for each in self.instances.values() if each[2] == name),
                },
            )
            for name, (memory, own, cpus) in self.nodes.items()
        ]
        return Cloud(build_host_table(records), build_engine(SchedulerConfig()), servers)

    def deviations(self, moves: Sequence[Move]) -> list[float]:
        """Return the sum of the standard deviations of the shares of CPUs and memory, before and after each move."""
        places = {name: each[2] for name, each in self.instances.items()}
        found = [self._deviation(places)]
        for name, node in moves:
            places[name] = node
            found.append(self._deviation(places))
        return found

    def _deviation(self, places: dict[str, str]) -> float:
        total = 0.0
        for index, capacity in ((0, 0), (1, 2)):
            shares = [
                sum(each[index] for name, each in self.instances.items() if places[name] == node) / facts[capacity]
                for node, facts in self.nodes.items()
            ]
            total += float(np.std(shares))
        return total


def read_clusters(folder: Path) -> Iterator[Cluster]:
    """Yield the clusters of Ganeti's tests with at least two online nodes and two instances that fit."""
    for file in sorted(folder.glob("*.data")):
        sections = file.read_text().split("\n\n")
        if len(sections) < 3:
            continue
        nodes, instances = {}, {}
        for line in sections[1].splitlines():
            name, memory, own, _, _, _, cpus, offline, *_ = line.split("|")
            if offline == "N" and int(memory) and float(cpus):
                nodes[name] = int(memory), int(own), _OVERCOMMIT * int(float(cpus))
        for line in sections[2].splitlines():
            fields = line.split("|")
            if len(fields) > 8 and fields[6] in nodes:
                instances[fields[0]] = int(fields[1]), int(fields[3]), fields[6]
        cluster = Cluster(file.stem, nodes, instances)
        if len(nodes) > 1 and len(instances) > 1:
            yield cluster


def ours(cluster: Cluster) -> list[Move]:
    """Return the moves of Kilonova, one after the other, the one with the largest gain first."""
    cloud = cluster.cloud()
    plan = rebalance(cloud, RebalanceRequest(Objective.SPREAD, limits=Limits(per_wave=1))).plan
    return [(move.server.uuid, cloud.hosts.hosts[move.row]) for move in plan.moves]


def of_hbal(cluster: Cluster, command: Sequence[str], environment: dict[str, str], folder: Path) -> list[Move]:
    """Return the moves of hbal. Node names in its output lack a common suffix."""
    file = folder / "cluster.data"
    file.write_text(cluster.written())
    options = ("--ignore-dynu", "--ignore-soft-errors", "-g", "0", "--min-gain-limit", "0")
    asked = [*command, "-t", str(file), *options]
    run = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"hbal fails on {cluster.name}: {run.stdout}{run.stderr}")
    moves = []
    for line in run.stdout.splitlines():
        if found := _STEP.match(line):
            name = next(each for each in cluster.instances if each.startswith(found[1]))
            node = found[3].split(":")[0]
            moves.append((name, next(each for each in cluster.nodes if each.startswith(node))))
    return moves


def _mirror_of(release: str) -> str:
    """Return the address from which this machine gets the packages of a release of Debian. Raises: StopIteration."""
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    lines = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    return next(address for address, _, name in (line.partition(" ") for line in lines) if name == release)


def fetch(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    """Fetch hbal and the clusters; return its command, its environment, and the folder of the clusters."""
    sources = folder / "sources.list"
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    release = Path("/etc/os-release").read_text().split("VERSION_CODENAME=")[1].split()[0]
    sources.write_text(f"deb-src [signed-by={key}] {_mirror_of(release)} {release} main\n")
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    own = [
        f"-oDir::Etc::sourcelist={sources}",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={folder / 'lists'}",
        f"-oDir::Cache={folder / 'cache'}",
    ]

    def apt(*arguments: str) -> None:
        subprocess.run(["apt-get", "-qq", *arguments], cwd=folder, check=True, capture_output=True)

    apt("download", *_PACKAGES)
    apt(*own, "update")
    apt(*own, "source", "--download-only", "--tar-only", _SOURCE)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "root")], check=True)
    with tarfile.open(next(folder.glob("*.orig.tar.gz"))) as archive:
        archive.extractall(folder / "source", filter="data")
    root = folder / "root"
    libraries = ":".join(str(path) for path in root.glob("**/x86_64-linux-gnu"))
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "HTOOLS": "hbal"}
    return [str(next(root.glob("**/bin/htools")))], environment, next(folder.glob("source/**/data/htools"))


def main(_arguments: list[str]) -> None:
    if shutil.which("apt-get") is None:
        print("skipped: this benchmark needs Debian's apt-get")
        return
    with TemporaryDirectory(prefix="kilonova-hbal-") as place:
        folder = Path(place)
        folder.chmod(0o755)  # apt reads the folder as another user
        command, environment, data = fetch(folder)
        for title, clusters in (
            ("clusters of Ganeti's tests", read_clusters(data)),
            ("random clusters", some_clusters()),
        ):
            compare(title, clusters, lambda each: of_hbal(each, command, environment, folder))


def compare(title: str, clusters: Iterable[Cluster], hbal: Callable[[Cluster], list[Move]]) -> None:
    """Print the deviation that both reach, and on how many clusters Kilonova's is smaller, per move and at the end."""
    print(
        f"{title:26} {'nodes':>5} {'inst.':>5} {'before':>7}  {'kilonova':>14}   {'hbal':>14}   mean over hbal's moves"
    )
    per_move, at_end = Counter[str](), Counter[str]()
    for cluster in clusters:
        mine, theirs = cluster.deviations(ours(cluster)), cluster.deviations(hbal(cluster))
        count = len(theirs) - 1
        path = [*mine, *([mine[-1]] * count)][1 : count + 1]
        means = (statistics.mean(path), statistics.mean(theirs[1:])) if count else (mine[0], mine[0])
        per_move[verdict(*means)] += 1
        at_end[verdict(mine[-1], theirs[-1])] += 1
        print(
            f"{cluster.name:26} {len(cluster.nodes):5} {len(cluster.instances):5} {mine[0]:7.4f}"
            f"  {mine[-1]:7.4f} in {len(mine) - 1:3}   {theirs[-1]:7.4f} in {count:3}   {means[0]:.4f} {means[1]:.4f}",
            flush=True,
        )
    print(f"kilonova: per move {dict(per_move)}, at the end {dict(at_end)}\n")


def verdict(mine: float, theirs: float) -> str:
    if abs(mine - theirs) < _EQUAL:
        return "equal"
    return "better" if mine < theirs else "worse"


def some_clusters() -> Iterator[Cluster]:
    """Yield random clusters whose first nodes are full and whose last nodes are new."""
    for seed in range(_RANDOM):
        chance = Random(seed)
        nodes = {
            f"node{number:02}": (chance.choice((65536, 131072)), 1024, 64) for number in range(chance.randint(8, 30))
        }
        used = list(nodes)[: len(nodes) * 2 // 3]
        free = {name: nodes[name][0] - 1024 for name in used}
        instances = {}
        for number in range(len(used) * 8):
            memory, cpus, node = chance.choice((1024, 2048, 4096, 8192)), chance.choice((1, 2, 4)), chance.choice(used)
            if free[node] >= memory:
                free[node] -= memory
                instances[f"inst{number:03}"] = memory, cpus, node
        yield Cluster(f"random-{seed}", nodes, instances)
