# SPDX-License-Identifier: Apache-2.0
"""What rules will say of a host with one more server, asked of many hosts at a time.

After each server of a request the rules are asked about its host again, and asking about one host takes nearly as long
as asking about fifty. So those that will probably be next are asked about together, ahead of time::

    server on a ─▶ look: a now; b, c, d, … with one more ─▶ server on c: known ─▶ server on b: known ─▶ …
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.funnel import LaterFilter, LaterRoom
from kilonova.scheduler.engine.incremental_scores import rated
from kilonova.scheduler.engine.ranking import blaming
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import ALL_ROWS, HostTable, IntArray
from kilonova.scheduler.rule import Weigher, rule_name

_AT_A_TIME = 64


class Lookahead(NamedTuple):
    """``lost_to``: number of the first rule that loses the host, None for none. ``ratings``: one a weigher."""

    lost_to: int | None
    ratings: tuple[float, ...]


class LookaheadCache:
    """Knows what becomes of hosts as equal servers are placed on them, one after the other.

    ``hosts``: the table that the servers are counted in. ``rules``: number → rule, in the order in which they are
    asked. Rules and weighers are those whose answer changes for nobody but the host that takes a server.
    """

    def __init__(
        self,
        hosts: HostTable,
        rules: Mapping[int, LaterRoom | LaterFilter],
        weighers: Sequence[Weigher],
    ) -> None:
        self._hosts = hosts
        self._rules = rules
        self._weighers = weighers
        self._ahead: dict[int, deque[Lookahead]] = {}
        self._servers = 1

    def of(self, row: int, spec: RequestSpec, likely: Callable[[int], IntArray]) -> Lookahead | None:
        """Return what to make of a host that has just taken one more server; None when that cannot be told this way.

        ``spec``: as for the next server. ``likely``: returns so many rows that servers will probably be placed on.
        """
        ahead = self._ahead.get(row)
        if not ahead:
            try:
                self._look(row, spec, likely)
            except RuleFailed:
                return None  # perhaps only of a host that is never chosen
            ahead = self._ahead[row]
        return ahead.popleft()

    def forget(self) -> None:
        """Begin anew, since something else has changed."""
        self._ahead = {}

    def _look(self, row: int, spec: RequestSpec, likely: Callable[[int], IntArray]) -> None:
        """Look at a few servers ahead on many hosts, or at many on a few, whichever would have been right so far."""
        self._servers = self._servers * 2 if row in self._ahead else max(self._servers // 2, 1)
        self._servers = min(self._servers, _AT_A_TIME) if spec.group is None else 1
        others = [other for other in likely(_AT_A_TIME // self._servers).tolist() if other != row]
        steps = np.arange(self._servers, dtype=np.int64)
        rows = np.repeat(np.array([row, *others], dtype=np.int64), self._servers)
        servers = np.concatenate([steps, np.tile(steps + 1, len(others))])
        found = iter(self._make(rows, servers, _with_more_members(self._hosts, spec, others)))
        self._ahead = {each: deque(next(found) for _ in steps) for each in (row, *others)}

    def _make(self, rows: IntArray, servers: IntArray, spec: RequestSpec) -> list[Lookahead]:
        table = self._hosts.foreseen(rows, servers, spec.query.totals, guest_of(spec))
        all_rows = np.arange(len(table))
        lost_to: list[int | None] = [None] * len(table)
        for number, rule in reversed(tuple(self._rules.items())):
            if isinstance(rule, LaterRoom):
                lost = rule.lost(table, all_rows)
            else:
                lost = np.flatnonzero(~rule.passes(table, spec, table.all_hosts))
            for place in lost.tolist():
                lost_to[place] = number
        columns = []
        for weigher in self._weighers:
            with blaming(rule_name(weigher)):
                columns.append(rated(weigher, table, spec, ALL_ROWS).tolist())
        ratings = zip(*columns, strict=True) if columns else [()] * len(table)
        return [Lookahead(*each) for each in zip(lost_to, ratings, strict=True)]


def _with_more_members(hosts: HostTable, spec: RequestSpec, rows: Sequence[int]) -> RequestSpec:
    """Return the request as it will be with one more member of its group on each of ``rows``."""
    if spec.group is None:
        return spec
    members = dict(spec.group.hosts)
    for row in rows:
        members[hosts.hosts[row]] = members.get(hosts.hosts[row], 0) + 1
    return replace(spec, group=replace(spec.group, hosts=members))
