# SPDX-License-Identifier: Apache-2.0
"""Decisions on evacuations of lost hosts, on a planned cloud: quick, and the same as those of the engine.

An evacuation is decided as a new server of the same request, except that the server's hosts are excluded and that the
destination needs the ability to rebuild. So most decisions are made from kept verdicts: the lost hosts are full while
they are lost, and the verdicts exclude them as they exclude any full host.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from kilonova.model.ability import Ability
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.host_filling import FILTERS_OF_NAMES
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import replace
from kilonova.scheduler.decision import SURVIVED, Decision
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.devices.choice import RANKED_KEPT, first_that_gives
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.engine.provider_trees import needs_trees
from kilonova.scheduler.engine.request_shape import request_shape
from kilonova.scheduler.filters.numa_topology import NUMATopologyFilter
from kilonova.scheduler.filters.pci_passthrough import PciPassthroughFilter
from kilonova.scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from kilonova.scheduler.host_table import BoolArray, IntArray
from kilonova.scheduler.plug_in_rules import PlugInRequestFilter
from kilonova.scheduler.rule import rule_name

_FULL = 2**40


class _Request(NamedTuple):
    """What is known of the evacuation of servers with one stored request.

    ``stored``: this request, kept so that its id stays its own. ``spec``: the request of a new server, if evacuations
    can be decided as such; ``shape``: its shape, if each evacuation changes the verdicts on its own destination only.
    """

    stored: RequestSpec
    spec: RequestSpec | None
    shape: Hashable | None


class Evacuations:
    """Evacuations of servers of a cloud whose hosts are lost."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._kept = KeptDecisions(cloud.engine)
        hosts = cloud.hosts
        self._all_able = all(profile.can(Ability.REBUILD) for profile in hosts.profiles)
        self._has_one_node = len(hosts.rows_of_host()) == len(hosts)
        self._are_independent = _are_independent(cloud.engine)
        self._affinity = next((each for each in cloud.engine.filters if type(each) is ServerGroupAffinityFilter), None)
        filters = {type(each) for each in cloud.engine.filters}
        self._gives_devices = {NUMATopologyFilter, PciPassthroughFilter} <= filters
        self._lost: frozenset[str] = frozenset()
        self._requests: dict[int, _Request] = {}
        #: Shape → the hosts that are valid for it while no host is lost, and their number.
        self._valid: dict[Hashable, tuple[BoolArray, int]] = {}

    @contextmanager
    def losing(self, rows: Sequence[int]) -> Iterator[None]:
        """Return a context manager in which the hosts at ``rows`` are lost; it undoes all changes of the cloud."""
        hosts, changes = self.cloud.hosts, self.cloud.changes

        def fill(amount: int) -> None:
            for row in rows:
                hosts.used[row] += amount
                changes.mark(row)

        fill(_FULL)
        self._lost = frozenset(hosts.hosts[row] for row in rows)
        try:
            with self.cloud.branch():
                yield
        finally:
            self._lost = frozenset()
            fill(-_FULL)

    def evacuate(self, server: PlannedServer) -> Decision | None:
        """Move a server of a lost host to the host that the scheduler chooses; return the decision if there is none.

        Raises: RuleFailed.
        """
        spec = self._request(server).spec
        if spec is None or server.group_uuid is not None or server.avoided:
            decision = self.cloud.decide(server, MoveKind.EVACUATE, leaving=self._lost)
        else:
            live, limit = self.cloud.live, RANKED_KEPT if server.needs else 1
            decision = self._kept.decide(live, live.hosts.taken_at, spec, limit=limit)
        best, _ = first_that_gives(decision, self.cloud.hosts, server.needs)
        if best is None:
            return decision
        self.cloud.move(server, best.row)
        return None

    def surely_fits(self, server: PlannedServer, lost: IntArray, before: int) -> bool:
        """Tell whether a server certainly finds a host, for every choice of hosts for the servers evacuated before it.

        ``lost``: rows of the lost hosts. ``before``: number of servers that are evacuated before. Raises: RuleFailed.
        """
        shape = self._request(server).shape
        if shape is None or (server.needs and not self._gives_devices):
            return False
        unusable = before + len(server.avoided)
        group = None if server.group_uuid is None else self.cloud.groups.get(server.group_uuid)
        if group is not None:
            if not self._has_one_node or (group.policy == "affinity" and sum(group.hosts.values()) > 1):
                return False
            unusable += len(group.hosts)
        valid = self._valid.get(shape)
        if valid is None:
            valid = self._valid[shape] = self._valid_for(server)
        mask, count = valid
        return count - int(np.count_nonzero(mask[lost])) > unusable

    def surely_refused(self, server: PlannedServer, lost: IntArray) -> Hindrance | None:
        """Return why a server is refused for every choice of hosts for the other servers; None if this is not certain.

        This is so for members of an affinity group if all other members are on the same lost host.
        """
        rule, hosts = self._affinity, self.cloud.hosts
        group = None if server.group_uuid is None else self.cloud.groups.get(server.group_uuid)
        if rule is None or group is None or group.policy != "affinity" or not self._has_one_node:
            return None
        row = self.cloud.row_of(server)
        if row is None or not self._are_independent or set(group.hosts) != {hosts.hosts[row]}:
            return None
        if sum(group.hosts.values()) < 2:
            return None
        return Hindrance(rule_name(rule), rule.reason, len(hosts) - len(lost))

    def _valid_for(self, server: PlannedServer) -> tuple[BoolArray, int]:
        spec = server.spec.moving(MoveKind.EVACUATE, server.uuid)
        decision = self.cloud.engine.decide(self.cloud.hosts, replace(spec, instance_uuids=(), group=None), limit=1)
        return decision.removed_by == SURVIVED, decision.survivors

    def _request(self, server: PlannedServer) -> _Request:
        known = self._requests.get(id(server.spec))
        if known is None:
            known = self._requests[id(server.spec)] = self._read(server)
        return known

    def _read(self, server: PlannedServer) -> _Request:
        hosts, stored = self.cloud.hosts, server.spec
        spec = stored.of_new_server()
        query = spec.query
        if server.named_servers or needs_trees(hosts, query) or not any(query.totals.values()):
            return _Request(stored, None, None)
        without_fallback = replace(spec, query=replace(query, fallback=None))
        shape = request_shape(without_fallback, spec.project_id) if self._are_independent else None
        is_kept = self._all_able and request_shape(spec, "") is not None
        return _Request(stored, spec if is_kept else None, shape)


def _are_independent(engine: Engine) -> bool:
    """Tell whether a server that is placed on a host changes the verdicts of all rules on this host only."""
    plug_ins = [dependence_of(each) for each in engine.request_filters if isinstance(each, PlugInRequestFilter)]
    of_filters = [dependence_of(each) for each in engine.filters if type(each) not in FILTERS_OF_NAMES]
    return all(each is not None and DependsOn.NAMES not in each for each in (*plug_ins, *of_filters))
