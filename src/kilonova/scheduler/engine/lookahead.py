# SPDX-License-Identifier: Apache-2.0
"""Verdicts and ratings that hosts will have after taking more servers, precomputed for many hosts at once.

After each placed server of a request, the rules must judge the chosen host again. Judging one host takes nearly as long
as judging fifty hosts. So the verdicts on all hosts that will probably be chosen next are computed together::

   server on a ─▶ judge a now, and b, c, d, … with one more server ─▶ server on c: cached ─▶ server on b: cached ─▶ …
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
    """The verdict on one host. ``ratings``: one rating per weigher.

    ``lost_to``: number of the first rule that excludes the host, or None if the host passes all rules.
    """

    lost_to: int | None
    ratings: tuple[float, ...]


class LookaheadCache:
    """Cache of verdicts on hosts with one, two, … additional equal servers.

    ``hosts``: the host table that counts the placed servers. ``rules``: number → rule, in the order in which they run.
    The cache is correct only if placing a server changes the results of rules and weighers for the chosen host only.
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
        """Return the verdict on the host at ``row`` after one more server was placed on it; None if a rule failed.

        ``spec``: the request of the next server. ``likely``: returns the given number of rows that will probably be
        chosen next.
        """
        ahead = self._ahead.get(row)
        if not ahead:
            try:
                self._look(row, spec, likely)
            except RuleFailed:
                return None  # the error is dropped: the rule may have failed for a host that is never chosen
            ahead = self._ahead[row]
        return ahead.popleft()

    def forget(self) -> None:
        """Clear the cache. This is necessary after any change other than one more server on one host."""
        self._ahead = {}

    def _look(self, row: int, spec: RequestSpec, likely: Callable[[int], IntArray]) -> None:
        """Fill the cache for a few more servers on each of many hosts, or for many more servers on each of a few hosts.

        The number of servers per host doubles if all cached verdicts on the chosen host are used up; it is halved if
        the chosen host was not in the cache.
        """
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
    """Return the request as if each host of ``rows`` ran one more member of its server group."""
    if spec.group is None:
        return spec
    members = dict(spec.group.hosts)
    for row in rows:
        members[hosts.hosts[row]] = members.get(hosts.hosts[row], 0) + 1
    return replace(spec, group=replace(spec.group, hosts=members))
