# SPDX-License-Identifier: Apache-2.0
"""The hosts on which a changed service or aggregate may change the results of any rule."""

import numpy as np

from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.host_table import BoolArray, IntArray
from kilonova.scheduler.live_hosts import LiveHosts


def touched_between(before: LiveHosts, after: LiveHosts) -> IntArray | None:
    """Return the rows of the hosts whose service or aggregates have changed.

    Return None if anything else has changed: the hosts, inventories, traits, or isolation rules. A changed isolation
    rule concerns all hosts, because a server that meets the rule may use no host without it.
    """
    old, new = before.hosts, after.hosts
    if before.changes is not after.changes or _isolation_of(old.aggregates) != _isolation_of(new.aggregates):
        return None
    touched: BoolArray = (old.disabled != new.disabled) | (old.forced_down != new.forced_down)
    touched |= before.last_seen(np.inf) != after.last_seen(np.inf)
    touched[[row for row, _ in old.disabled_reasons.items() ^ new.disabled_reasons.items()]] = True
    if old.aggregates is not new.aggregates:
        for one, other in ((old.aggregates, new.aggregates), (new.aggregates, old.aggregates)):
            known = {each.id: each for each in other.aggregates}
            for place, aggregate in enumerate(one.aggregates):
                if known.get(aggregate.id) != aggregate:
                    touched |= one.membership[place]
    return np.flatnonzero(touched)


def _isolation_of(index: AggregateIndex) -> object:
    return None if index.isolation is None else frozenset(index.isolation.rules)
