# SPDX-License-Identifier: Apache-2.0
"""Base classes of scheduler drivers. A driver chooses the hosts itself, or makes the filters and weighers choose them.

::

    Scheduler             base class of every driver: Nova's former driver interface
    └── FilterScheduler   the default: request filters, filters and weighers as configured

``[scheduler] driver`` names the class. A driver only chooses hosts; Kilonova claims the resources, spawns the server
and records faults. The claim fails if the chosen host has no room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kilonova.errors import NoValidHost
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.records import dataclass
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import isolation_steps
from kilonova.scheduler.engine.move_rules import move_steps
from kilonova.scheduler.filters.compute import ComputeFilter
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nova_compat.view import View

#: Names of the compute service in the ``topic`` argument of ``hosts_up``.
COMPUTE_TOPICS = frozenset({"compute", "nova-compute"})


@dataclass(frozen=True)
class Cloud:
    """A snapshot of the cloud for one request. Drivers may read the snapshot; changes to it have no effect.

    ``spec``: the request with its Placement query. ``group_of``: uuid of a server group → hosts of its members.
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
    """The results of a driver's ``schedule_run_instance``: the host or the error of each instance, by instance uuid."""

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
    """The request context that a driver receives: user, project and request id.

    ``remote_address``: the client address of the API request. ``is_admin``: whether the caller is an administrator.
    ``launches``: the hosts and errors that ``schedule_run_instance`` has reported so far.
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
        """Return the context of the request in ``cloud``."""
        spec = cloud.spec
        return cls(cloud, spec.user_id, spec.project_id, spec.request_id, spec.remote_address, spec.is_admin)

    @property
    def user(self) -> str:
        return self.user_id

    @property
    def tenant(self) -> str:
        return self.project_id

    def elevated(self) -> "RequestContext":
        """Return a copy of the context with administrator privileges."""
        return replace(self, is_admin=True)

    def to_dict(self) -> dict[str, Any]:
        names = ("user_id", "project_id", "request_id", "remote_address", "is_admin")
        return {name: getattr(self, name) for name in names}


class Scheduler:
    """Base class of scheduler drivers. Override ``select_destinations`` and name the class in ``[scheduler] driver``.

    At its start, a control process creates one object of the class, without arguments. The object handles all requests
    concurrently, each request in a thread of its own. A request fails after ``[scheduler] driver_timeout`` seconds. If
    the driver raises an exception, only the current request fails.

    Source: OpenStack, "Customizing the OpenStack Compute (nova) Scheduler".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept and ignore the arguments that older drivers pass to their base class."""

    def select_destinations(
        self, context: RequestContext, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Choose a host for each of ``request_spec["num_instances"]`` servers. Must be overridden.

        ``context``: user, project and cloud of the request, see :class:`RequestContext`.
        ``request_spec``: ``num_instances``, ``instance_uuids``, ``instance_properties``, ``instance_type`` (the flavor)
        and ``image``, as nested dicts whose keys can also be read as attributes.
        ``filter_properties``: ``scheduler_hints``, ``force_hosts``, ``force_nodes``, ``ignore_hosts``, ``retry`` (hosts
        that already failed for this request), ``group_hosts`` and ``group_policies``, ``limits``.

        Return one ``{"host": name, "nodename": name or None, "limits": None}`` per server, in order. Without a
        nodename, the first node of the host is used. If a returned host has no room, the host is added to ``retry`` and
        the driver is called again, at most ``[scheduler] max_attempts`` times.

        Raises: NoValidHost(reason=…), which becomes the fault of the servers.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement select_destinations")

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
        """Choose hosts for new servers and start the builds, as drivers up to Icehouse do. May be overridden.

        If a driver overrides this method, it is called for new servers; moves still use ``select_destinations``. For
        each of ``request_spec["instance_uuids"]`` the method either calls :func:`instance_update_db` and passes the
        result and the host to ``run_instance`` of ``nova.compute.rpcapi.ComputeAPI``, or it calls
        :func:`handle_schedule_error`. Kilonova then continues as after ``select_destinations``: it claims the hosts,
        and the servers of one request are built together or fail together, with the first error as their fault.

        ``admin_password``, ``injected_files`` and ``requested_networks`` are always empty: drivers get no secrets.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement schedule_run_instance")

    def update_service_capabilities(self, service_name: str, host: str, capabilities: Mapping[str, Any]) -> None:
        """Receive the capabilities of a host. The default does nothing; ``context.cloud`` has the capabilities as well.

        Called before ``select_destinations``, for each host that is new or whose capabilities have changed.
        ``service_name``: ``compute``. ``capabilities``: hypervisor type, version and name, ``supported_instances``,
        ``cpu_info``, and the other reported values.
        """

    def hosts_up(self, context: RequestContext, topic: str) -> list[str]:
        """Return the names of the hosts whose service on ``topic`` (``compute``) is up and enabled.

        The result excludes hosts that isolation rules exclude for this request, and invalid destinations of a move.
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
    """Return the dict that ``run_instance`` needs for an instance that has no host yet. The database is not changed."""
    now = datetime.fromtimestamp(context.cloud.hosts.taken_at, UTC)
    return View(uuid=instance_uuid, host=None, node=None, scheduled_at=now, **(extra_values or {}))


def handle_schedule_error(
    context: RequestContext, ex: Exception, instance_uuid: str, request_spec: Mapping[str, Any]
) -> None:
    """Record the error of an instance without a host: the server goes to ERROR with ``ex`` as its fault."""
    del request_spec
    context.launches.fail(instance_uuid, ex)


class FilterScheduler(Scheduler):
    """The default driver. A subclass can change the request and leave the choice to the filters and weighers.

    Only ``scheduler_hints``, ``ignore_hosts``, ``force_hosts`` and ``force_nodes`` in ``filter_properties`` are used.
    If ``[scheduler] driver`` names this class itself, the engine runs directly and the class is never called.
    """

    def select_destinations(
        self,
        context: RequestContext,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
    ) -> Sequence[Mapping[str, Any]]:
        """Return the best host for each server. Each choice counts the usage of the servers placed before.

        Raises: NoValidHost.
        """
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
    """Return ``spec`` with the hints and hosts that a driver changed in the filter properties."""
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
