# SPDX-License-Identifier: Apache-2.0
"""The best drain of a small cloud by exhaustive search over all sequences of moves."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from kilonova.planning.cloud import Cloud, DoesNotFitError
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Stay, possible_kinds
from kilonova.scheduler.decision import SURVIVED


class TooLargeError(Exception):
    """The search has more states than its limit."""


Cost = tuple[int, float, int]
"""Number of servers that stay, GiB of all moves, number of moves."""


@dataclass
class Search:
    """The search. States are the places of all servers; each is expanded once for each better cost."""

    cloud: Cloud
    asked: DrainRequest
    most_states: int = 4000
    seen: dict[tuple[int | None, ...], tuple[float, int]] = field(default_factory=dict)
    best: Cost = (10**6, 0.0, 0)

    def run(self) -> Cost:
        """Return the least cost. Raises: TooLargeError."""
        self._expand(0.0, 0, frozenset())
        return self.best

    def _expand(self, gib: float, moves: int, moved: Collection[str]) -> None:
        cloud = self.cloud
        places = tuple(cloud.row_of(server) for server in cloud.servers.values())
        key = places
        if key in self.seen and self.seen[key] <= (gib, moves):
            return
        self.seen[key] = gib, moves
        if len(self.seen) > self.most_states:
            raise TooLargeError
        drained = {row for host in self.asked.hosts for row in cloud.hosts.rows_of_host()[host]}
        self.best = min(self.best, (sum(place in drained for place in places), round(gib, 6), moves))
        for server in list(cloud.servers.values()):
            kinds = possible_kinds(server, self.asked.how, locked_too=self.asked.locked_too)
            if server.uuid in moved or isinstance(kinds, Stay):
                continue
            for kind in kinds[:1]:
                decision = cloud.decide(server, kind, leaving=self.asked.hosts, limit=1)
                for row in np.flatnonzero(decision.removed_by == SURVIVED).tolist():
                    try:
                        with cloud.branch():
                            cloud.move(server, row)
                            self._expand(gib + server.copied_gib(kind), moves + 1, {*moved, server.uuid})
                    except DoesNotFitError:
                        continue
