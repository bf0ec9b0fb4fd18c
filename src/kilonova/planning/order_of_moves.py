# SPDX-License-Identifier: Apache-2.0
"""Waves of moves, such that each move is valid at any time within its wave.

The moves are given in an order in which each is valid at once after the previous ones. Rules whose verdict can only get
worse when a host takes more servers (capacity, instances, anti-affinity, …) stay satisfied if a move to a host begins
after all earlier moves from that host have ended: then the host never has more than at one of the planned states
([ADR 45](../../../docs/adr/0045-plans-of-moves.md)). The other rules are satisfied by keeping the order:

- a move is after those of the servers that its hints name, and before their next ones;
- moves of servers with NUMA cells or PCI devices to one host are in different waves;
- a move that is judged by another rule that depends on the host's usage is alone on its destination.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Limits, PlannedMove
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass, replace
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.provider_trees import is_plain
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.rule import Filter

#: Filters whose order this module keeps in another way, or whose verdicts only get worse with more servers on a host.
_SAFE = tuple(
    FILTERS[name]
    for name in (
        *("AggregateCoreFilter", "AggregateDiskFilter", "AggregateIoOpsFilter"),
        *("AggregateNumInstancesFilter", "AggregateRamFilter", "CoreFilter"),
        *("DifferentHostFilter", "DiskFilter", "IoOpsFilter"),
        *("NumInstancesFilter", "NUMATopologyFilter", "PciPassthroughFilter"),
        *("RamFilter", "RetryFilter", "SameHostFilter"),
        *("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter", "TypeAffinityFilter"),
    )
)


class Delicate:
    """Tells how a server's verdicts depend on the order of moves; computed once for each request."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._known: dict[int, tuple[object, bool]] = {}
        filters = [each for each in cloud.engine.filters if type(each) not in _SAFE]
        self._on_rows = [each for each in filters if DependsOn.ROWS in (dependence_of(each) or DependsOn.SHARED)]
        #: True if a rule may depend on anything: then each move is a wave of its own.
        self.everywhere = any(
            dependence_of(each) is None or DependsOn.NAMES in (dependence_of(each) or DependsOn.SHARED)
            for each in filters
        )

    def on_its_host(self, server: PlannedServer) -> bool:
        """Tell whether the order of moves from and to its destination matters for a server."""
        known = self._known.get(id(server.spec))
        if known is None:
            known = self._known[id(server.spec)] = server.spec, self._judged(server)
        return known[1]

    def _judged(self, server: PlannedServer) -> bool:
        hosts = self._cloud.hosts
        return not is_plain(hosts, server.spec.query) or any(self._applies(each, server) for each in self._on_rows)

    def _applies(self, rule: Filter, server: PlannedServer) -> bool:
        hosts = self._cloud.hosts
        return rule.passes(hosts, server.spec) is not hosts.all_hosts


@dataclass
class _Wave:
    """What a wave contains so far. The keys are service hosts."""

    moves: int = 0
    on_host: Counter[str] = field(default_factory=Counter)
    gib: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def has_place(self, limits: Limits, hosts: Sequence[str], gib: float) -> bool:
        if limits.per_wave is not None and self.moves >= limits.per_wave:
            return False
        if limits.per_host is not None and any(self.on_host[host] >= limits.per_host for host in hosts):
            return False
        most = limits.gib_per_host
        return most is None or all(not self.on_host[host] or self.gib[host] + gib <= most for host in hosts)

    def add(self, hosts: Sequence[str], gib: float) -> None:
        self.moves += 1
        self.on_host.update(hosts)
        for host in hosts:
            self.gib[host] += gib


class Waves:
    """Waves that are filled by moves in their planned order. The keys of the dictionaries are service hosts.

    ``keeps_order``: moves that share a host are never in the same wave, and keep their order.
    """

    def __init__(self, cloud: Cloud, limits: Limits, *, keeps_order: bool = False) -> None:
        self._cloud, self._limits, self._keeps_order = cloud, limits, keeps_order
        self._delicate = Delicate(cloud)
        self._waves: list[_Wave] = []
        #: The newest wave in which a host is left, is reached by a server with devices, or changes at all.
        self._left: dict[str, int] = {}
        self._device: dict[str, int] = {}
        self._changed: dict[str, int] = {}
        #: The newest wave in which a host is reached by a move that must be alone there.
        self._alone: dict[str, int] = {}
        #: Server → the newest wave that moves it, and that moves a server whose hints name it.
        self._moved: dict[str, int] = {}
        self._named: dict[str, int] = {}

    def add(self, move: PlannedMove) -> PlannedMove:
        """Return the move with its wave: the first in which it is valid at any time."""
        source, to = self._cloud.hosts.hosts[move.source], self._cloud.hosts.hosts[move.row]
        hosts = (source,) if source == to else (source, to)
        number = self._first(move, source, to)
        while not self._wave(number).has_place(self._limits, hosts, move.gib):
            number += 1
        self._wave(number).add(hosts, move.gib)
        self._note(move, number, source, to)
        return replace(move, wave=number)

    def _first(self, move: PlannedMove, source: str, to: str) -> int:
        server = move.server
        if self._delicate.everywhere:
            return len(self._waves)
        after = [self._left.get(to), self._alone.get(to), self._alone.get(source)]
        after += [self._moved.get(server.uuid), self._named.get(server.uuid)]
        after += [self._moved.get(name) for name in server.named_servers]
        if server.needs:
            after.append(self._device.get(to))
        if server.share:
            after.append(self._device.get(source))
        if self._delicate.on_its_host(server):
            after.append(self._changed.get(to))
        if self._keeps_order:
            after += [self._changed.get(source), self._changed.get(to)]
        return max((wave + 1 for wave in after if wave is not None), default=0)

    def _note(self, move: PlannedMove, number: int, source: str, to: str) -> None:
        _raise(self._left, source, number)
        _raise(self._changed, source, number)
        _raise(self._changed, to, number)
        _raise(self._moved, move.server.uuid, number)
        for name in move.server.named_servers:
            _raise(self._named, name, number)
        if move.server.needs:
            _raise(self._device, to, number)
        if self._delicate.on_its_host(move.server):
            _raise(self._alone, to, number)

    def _wave(self, number: int) -> _Wave:
        while len(self._waves) <= number:
            self._waves.append(_Wave())
        return self._waves[number]


def _raise(numbers: dict[str, int], key: str, number: int) -> None:
    numbers[key] = max(number, numbers.get(key, number))


def in_waves(
    cloud: Cloud, moves: Iterable[PlannedMove], limits: Limits, *, keeps_order: bool = False
) -> Iterator[PlannedMove]:
    """Yield the moves with their waves, in the given order. ``cloud``: the state before the first move.

    ``keeps_order``: moves that share a host are never in the same wave, and keep their order.
    """
    waves = Waves(cloud, limits, keeps_order=keeps_order)
    for move in moves:
        yield waves.add(move)
