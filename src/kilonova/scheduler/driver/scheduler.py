# SPDX-License-Identifier: Apache-2.0
"""Scheduler drivers: one class that chooses the hosts, in place of filters and weighers or on top of them.

::

    Scheduler             what every driver inherits: asks and answers of the old driver interface
    └── FilterScheduler   the default: request filters, filters and weighers as configured

``[scheduler] driver`` names the class. Kilonova keeps the claim, the spawn and the faults to itself: a driver says
where, and the host it names still has to have room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kilonova.errors import NoValidHost
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import isolation_steps
from kilonova.scheduler.engine.move_rules import move_steps
from kilonova.scheduler.filters.compute import ComputeFilter
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nova_compat.view import View

#: What ``hosts_up`` calls the services that run servers.
COMPUTE_TOPICS = frozenset({"compute", "nova-compute"})


@dataclass(frozen=True)
class Cloud:
    """The cloud as one request finds it. A driver may read it; changing it changes nothing.

    ``spec``: the request with its resource query. ``group_of``: uuid of a server group → who holds its members.
    """

    hosts: HostTable
    spec: RequestSpec
    engine: Engine = field(default_factory=Engine)
    group_of: Callable[[str], GroupView | None] = lambda _: None
    service_down_time_s: float = 60
    rng: np.random.Generator | None = None

    def __repr__(self) -> str:
        return f"<Cloud of {len(self.hosts)} hosts>"


@dataclass(slots=True)
class Launches:
    """What a driver says in ``schedule_run_instance``: instance uuid → host, or why there is none."""

    hosts: dict[str, str | None] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)

    def run(self, instance_uuid: str, host: str | None) -> None:
        self.hosts[instance_uuid] = host

    def fail(self, instance_uuid: str, error: Exception) -> None:
        self.errors[instance_uuid] = error

    def __repr__(self) -> str:
        return f"<{len(self.hosts)} instances to run>"


@dataclass(frozen=True)
class RequestContext:
    """Who asks.

    ``remote_address``: where the API request came from. ``is_admin``: whether the caller may do everything.
    ``launches``: what a driver that runs instances itself has said so far.
    """

    cloud: Cloud
    user_id: str = ""
    project_id: str = ""
    request_id: str = ""
    remote_address: str | None = None
    is_admin: bool = False
    launches: Launches = field(default_factory=Launches)

    @classmethod
    def of(cls, cloud: Cloud) -> "RequestContext":
        """Return the context of the cloud's request."""
        spec = cloud.spec
        return cls(cloud, spec.user_id, spec.project_id, spec.request_id, spec.remote_address, spec.is_admin)

    @property
    def user(self) -> str:
        return self.user_id

    @property
    def tenant(self) -> str:
        return self.project_id

    def elevated(self) -> "RequestContext":
        """Return the same context with the rights of an administrator."""
        return replace(self, is_admin=True)

    def to_dict(self) -> dict[str, Any]:
        names = ("user_id", "project_id", "request_id", "remote_address", "is_admin")
        return {name: getattr(self, name) for name in names}


class Scheduler:
    """Inherit from this and override ``select_destinations``; ``[scheduler] driver`` takes the path of the class.

    One object serves all requests, several at a time, each in a thread of its own that is given up after
    ``[scheduler] driver_timeout`` seconds. It is made without arguments when the service starts. Whatever a driver
    raises fails the request it was asked for, and nothing else.

    Source: OpenStack, "Customizing the OpenStack Compute (nova) Scheduler".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take and ignore what older drivers hand on."""

    def select_destinations(
        self, context: RequestContext, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Choose a host for each of ``request_spec["num_instances"]`` servers. Must be overridden.

        ``context``: who asks, see :class:`RequestContext`.
        ``request_spec``: ``num_instances``, ``instance_uuids``, ``instance_properties``, ``instance_type`` (the flavor)
        and ``image``, as nested dicts whose keys are attributes as well.
        ``filter_properties``: ``scheduler_hints``, ``force_hosts``, ``force_nodes``, ``ignore_hosts``, ``retry`` (hosts
        that were tried for this request already), ``group_hosts`` and ``group_policies``, ``limits``.

        Return one ``{"host": name, "nodename": name or None, "limits": None}`` a server, in order. Without a
        nodename the first node of the host is meant. A host that has no room counts as tried, and the driver is asked
        again, ``[scheduler] max_attempts`` times at most.

        Raises: NoValidHost(reason=…), which becomes the fault of the servers.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to select destinations")

    def schedule_run_instance(
        self,
        context: RequestContext,
        request_spec: Mapping[str, Any],
        admin_password: Any,
        injected_files: Any,
        requested_networks: Any,
        is_first_time: bool,
        filter_properties: Mapping[str, Any],
        legacy_bdm_in_spec: Any = None,
    ) -> None:
        """Choose hosts and have new servers built there, as drivers up to Icehouse do. May be overridden.

        Where it is, new servers are asked for in this way, and moves by ``select_destinations``. For each of
        ``request_spec["instance_uuids"]`` it calls :func:`instance_update_db` and hands what that returns, with the
        host, to ``run_instance`` of ``nova.compute.rpcapi.ComputeAPI``, or it calls :func:`handle_schedule_error`.
        Kilonova then does what it does with the answer of ``select_destinations``: the hosts have to have room, and
        the servers of one request are built together or fail together, with the first error as their fault.

        ``admin_password``, ``injected_files`` and ``requested_networks`` are empty here: no driver gets secrets.
        """
        raise NotImplementedError(f"{type(self).__name__} does not run instances; Kilonova does")

    def update_service_capabilities(self, service_name: str, host: str, capabilities: Mapping[str, Any]) -> None:
        """Take note of what a host can do. May be overridden; nothing is kept here, since ``context.cloud`` has it all.

        Called before ``select_destinations``, for each host that is new or reports something else than before.
        ``service_name``: ``compute``. ``capabilities``: hypervisor type, version and name, ``supported_instances``,
        ``cpu_info``, and the rest as reported.
        """

    def hosts_up(self, context: RequestContext, topic: str) -> list[str]:
        """Return the names of the hosts whose service on ``topic`` (``compute``) is up and enabled.

        Hosts that isolation rules close to the servers of the request, and hosts that cannot take in a server that is
        moved, are not among them.
        """
        if topic not in COMPUTE_TOPICS:
            return []
        cloud = context.cloud
        up = ComputeFilter(service_down_time_s=cloud.service_down_time_s).passes(cloud.hosts, cloud.spec)
        for step in (*isolation_steps(cloud.hosts, cloud.spec), *move_steps(cloud.hosts, cloud.spec)):
            up = up & step.mask
        return list(dict.fromkeys(cloud.hosts.hosts[row] for row in np.flatnonzero(up)))

    def group_hosts(self, context: RequestContext, group: str) -> list[str]:
        """Return the names of the hosts that hold members of the server group with this uuid."""
        found = context.cloud.group_of(group)
        return [] if found is None else [host for host, members in found.hosts.items() if members > 0]


def instance_update_db(
    context: RequestContext, instance_uuid: str, extra_values: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return an instance that is on no host yet, for ``run_instance``. Its record is Kilonova's to change."""
    now = datetime.fromtimestamp(context.cloud.hosts.taken_at, UTC)
    return View(uuid=instance_uuid, host=None, node=None, scheduled_at=now, **(extra_values or {}))


def handle_schedule_error(
    context: RequestContext, ex: Exception, instance_uuid: str, request_spec: Mapping[str, Any]
) -> None:
    """Note why an instance has no host: its server goes to ERROR with that as its fault, and nothing is raised."""
    del request_spec
    context.launches.fail(instance_uuid, ex)


class FilterScheduler(Scheduler):
    """The default. A driver may inherit from it, change what is asked for, and leave the choice to the rules.

    Of changed ``filter_properties`` it honours ``scheduler_hints``, ``ignore_hosts``, ``force_hosts`` and
    ``force_nodes``. As ``[scheduler] driver`` itself it is never called: the rules then run without this detour.
    """

    def select_destinations(
        self,
        context: RequestContext,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
    ) -> Sequence[Mapping[str, Any]]:
        """Return the best host for each server, each seeing what the ones before it take. Raises: NoValidHost."""
        cloud = context.cloud
        spec = _as_asked(cloud.spec, filter_properties)
        batch = Batch(cloud.engine, cloud.hosts.with_own_use(), spec, limit=1, rng=cloud.rng)
        chosen: list[Mapping[str, Any]] = []
        for _ in range(request_spec["num_instances"]):
            decision = batch.decide()
            if not decision.ranked:
                raise NoValidHost(reason=decision.summary() or "There are no hosts.")
            best = decision.ranked[0]
            batch.place(best.row)
            chosen.append({"host": best.host, "nodename": best.node, "limits": None})
        return chosen


def _as_asked(spec: RequestSpec, filter_properties: Mapping[str, Any]) -> RequestSpec:
    """Return ``spec`` with what a driver changed in its filter properties."""
    hints = filter_properties.get("scheduler_hints") or {}
    forced = filter_properties.get("force_hosts") or (None,)
    nodes = filter_properties.get("force_nodes") or (None,)
    return replace(
        spec,
        hints={name: tuple(value) if isinstance(value, list | tuple) else (value,) for name, value in hints.items()},
        ignore_hosts=frozenset(filter_properties.get("ignore_hosts") or ()),
        force_host=forced[0],
        force_node=nodes[0],
    )
