# SPDX-License-Identifier: Apache-2.0
"""How many servers of a mix of requests fit, created one after the other in an order that follows from their shares.

The next server is of the request with the largest deficit: the number of servers that its share entitles it to, minus
the number that it has. The earlier of two requests with equal deficits is the next one. So shares of 3 and 1
yield the order 0, 0, 1, 0, again and again. The count stops at the first refusal, also if other requests still fit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.planning.capacity import as_asked
from kilonova.planning.hindrance import Hindrance, hindrances_of
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.choice import RANKED_KEPT, DeviceNeeds, first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.engine.provider_trees import is_plain
from kilonova.scheduler.guests import ChangedGuests, GuestKind, guest_of
from kilonova.scheduler.host_table import HostTable, IntArray
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.row_changes import RowChanges

MOST_SERVERS = 1_000_000
"""Limit of the number of servers of a mix."""
_MOST_ON_A_HOST = 10_000


@dataclass(frozen=True, slots=True)
class Part:
    """A request of a mix. ``share``: at least 1. ``refusal``: why the API refuses the request, if it does."""

    spec: RequestSpec
    share: int
    refusal: Hindrance | None = None


@dataclass(frozen=True, slots=True)
class MixCapacity:
    """The servers of a mix that fit: their number for each part; None if nothing limits it, or if it is too large.

    ``refused``: the part whose server is refused; None if ``fits`` is None. ``reasons``: why it is refused.
    ``placed``: number of servers placed on each host. ``last``: the decision that refused the server, if there is one.
    Shapes: ``placed`` (H,).
    """

    fits: tuple[int, ...] | None
    refused: int | None
    reasons: tuple[Hindrance, ...]
    placed: IntArray
    last: Decision | None = None


def in_order(shares: Sequence[int]) -> Iterator[int]:
    """Yield, without end, the index of the request that the next server of a mix is of."""
    total = sum(shares)
    deficits = [0] * len(shares)
    while True:
        deficits = [deficit + share for deficit, share in zip(deficits, shares, strict=True)]
        chosen = max(range(len(shares)), key=lambda index: (deficits[index], -index))
        deficits[chosen] -= total
        yield chosen


def mix_capacity(
    hosts: HostTable,
    parts: Sequence[Part],
    engine: Engine,
    *,
    aliases: Mapping[str, Alias] | None = None,
    check: Callable[[], None] = lambda: None,
) -> MixCapacity:
    """Return how many servers of a mix fit, and what refuses the next one. All parts are of the same server group.

    ``aliases``: the configured PCI aliases. ``check``: called regularly; stops the computation by an exception.
    Raises: InvalidRequest, for contradictory NUMA or PCI options; RuleFailed.
    """
    placing = _Placing(hosts, engine)
    lanes = [None if part.refusal else _Lane.of(hosts, part.spec, engine, aliases or {}) for part in parts]
    counts = [0] * len(parts)
    for number, index in enumerate(in_order([part.share for part in parts])):
        check()
        lane, refusal = lanes[index], parts[index].refusal
        if lane is None:
            return MixCapacity(tuple(counts), index, () if refusal is None else (refusal,), placing.placed)
        refused = placing.place(lane)
        if refused is not None:
            return MixCapacity(tuple(counts), index, hindrances_of(refused), placing.placed, refused)
        counts[index] += 1
        if number >= MOST_SERVERS or placing.is_endless:
            break
    return MixCapacity(None, None, (), placing.placed)


@dataclass(frozen=True, slots=True)
class _Lane:
    """A request of a mix with what it needs.

    ``limit``: number of hosts to rank. ``is_plain``: whether each server takes its resources from the root provider.
    """

    spec: RequestSpec
    needs: DeviceNeeds
    guest: GuestKind
    limit: int
    is_plain: bool

    @classmethod
    def of(cls, hosts: HostTable, spec: RequestSpec, engine: Engine, aliases: Mapping[str, Alias]) -> "_Lane":
        asked = as_asked(spec, engine)
        needs = needs_of(asked, aliases)
        return cls(asked, needs, guest_of(asked), RANKED_KEPT if needs else 1, is_plain(hosts, asked.query))


class _Placing:
    """A copy of the host table on which servers of several requests are placed one after the other.

    ``placed``: number of servers placed on each host. ``is_endless``: a host took more servers than are counted.
    Shapes: ``placed`` (H,).
    """

    def __init__(self, hosts: HostTable, engine: Engine) -> None:
        self._hosts = replace(hosts.with_own_use(), guests=ChangedGuests(hosts.guests))
        self._engine = engine
        self._kept = KeptDecisions(engine)
        self._live = LiveHosts(self._hosts, RowChanges(len(hosts)), lambda _now: hosts.last_seen)
        self._group: GroupView | None = None
        self.placed: IntArray = np.zeros(len(hosts), dtype=np.int64)
        self.is_endless = False

    def place(self, lane: _Lane) -> Decision | None:
        """Place one more server of a request. Return the decision that refuses it, or None. Raises: RuleFailed."""
        hosts = self._hosts
        spec = lane.spec if self._group is None else replace(lane.spec, group=self._group)
        decision = self._kept.decide(self._live, hosts.taken_at, spec, limit=lane.limit)
        best, share = first_that_gives(decision, hosts, lane.needs)
        if best is None:
            return decision
        row = best.row
        plain = {hosts.uuids[row]: spec.query.totals} if lane.is_plain else None
        hosts.count_server(row, plain or self._engine.allocations(hosts, spec, row), lane.guest, share)
        hosts.num_io_ops[row] -= 1  # the server is active when the next one is created
        self._live.changes.mark(row)
        if spec.group is not None:
            self._group = spec.group.with_members(best.host)
        self.placed[row] += 1
        self.is_endless = bool(self.placed[row] > _MOST_ON_A_HOST)
        return None
