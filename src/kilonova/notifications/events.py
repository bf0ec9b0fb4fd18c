# SPDX-License-Identifier: Apache-2.0
"""Notification events before they are formatted: small typed records, created even if no driver is configured."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.model.aggregate import Aggregate
from kilonova.model.audit_periods import Period
from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.host import Service
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.keypair import Keypair
from kilonova.model.network_info import NetworkInfo
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import ServerGroup
from kilonova.notifications.message import Phase, Source
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Details:
    """Additional data of some server actions.

    ``key``: the server's public key. ``new_flavor``: new flavor of a resize. ``image_id``: image of a snapshot or a
    rescue. ``forced``: True for a forceDelete.
    """

    key: PublicKey | None = None
    new_flavor: Flavor | None = None
    image_id: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class ServerActed:
    """An action on a server.

    ``source``, ``host``: service that the notification names as its publisher, and the host of this service; None is
    the host of this process. ``failure``: failure of the action in phase ``error``, otherwise None. ``kind``: kind of
    the workflow that failed. ``interfaces``: those of the server at the time of the event; None: those that are stored
    when the message is built.
    """

    action: str
    phase: Phase | None
    instance: Instance
    source: Source = Source.COMPUTE
    host: str | None = None
    kind: str = ""
    failure: Failure | None = None
    details: Details = field(default_factory=Details)
    interfaces: NetworkInfo | None = None


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """A change of a server's state or description.

    ``old_name``: None if the name is unchanged. ``interfaces``: as in :class:`ServerActed`.
    """

    instance: Instance
    old_state: VmState | None
    old_task: TaskState | None
    source: Source = Source.COMPUTE
    host: str | None = None
    old_name: str | None = None
    interfaces: NetworkInfo | None = None


@dataclass(frozen=True, slots=True)
class ServerExists:
    """A server existed in an audit period.

    ``period``: None for the current period, from its start until now. ``interfaces``: as in :class:`ServerActed`.
    """

    instance: Instance
    period: Period | None = None
    interfaces: NetworkInfo | None = None


@dataclass(frozen=True, slots=True)
class HostsSought:
    """A scheduler request. ``phase``: ``start`` when the request starts, ``end`` when the scheduler has found hosts."""

    phase: Phase
    spec: RequestSpec


@dataclass(frozen=True, slots=True)
class NoHostFound:
    """No valid host was found for a server. ``method``: Nova's name of the failed task, such as build_instances."""

    method: str
    instance_uuid: str
    state: VmState | None
    kind: str
    failure: Failure
    spec: RequestSpec | None = None


@dataclass(frozen=True, slots=True)
class HostFailed:
    """An operation on a server failed on a host. ``kind``: kind of the workflow."""

    host: str
    instance_uuid: str
    kind: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class AggregateActed:
    """One phase of an administrator's change of an aggregate.

    ``aggregate``: the aggregate in that phase. ``host``: added or removed host. ``metadata``: the requested changes.
    """

    action: str
    phase: Phase
    aggregate: Aggregate
    host: str | None = None
    metadata: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class HostFetchedImages:
    """Result of caching images on one host of an aggregate. ``index``: number of finished hosts, out of ``total``."""

    aggregate: Aggregate
    host: str
    cached: tuple[str, ...]
    failed: tuple[str, ...]
    index: int
    total: int


@dataclass(frozen=True, slots=True)
class FlavorActed:
    """A flavor was created, changed or deleted. ``projects``: projects with access to a private flavor."""

    action: str
    flavor: Flavor
    projects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class KeypairActed:
    """One phase of creating, importing or deleting a key pair."""

    action: str
    phase: Phase
    keypair: Keypair


@dataclass(frozen=True, slots=True)
class GroupActed:
    """A server group was created or deleted, or ``new_members`` were added to it."""

    action: str
    group: ServerGroup
    new_members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceActed:
    """A service was created, changed or deleted."""

    action: str
    service: Service


ResourceEvent = (
    ServerActed
    | ServerChanged
    | ServerExists
    | HostsSought
    | NoHostFound
    | HostFailed
    | AggregateActed
    | HostFetchedImages
    | FlavorActed
    | KeypairActed
    | GroupActed
    | ServiceActed
)
