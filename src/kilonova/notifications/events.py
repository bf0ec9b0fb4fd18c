# SPDX-License-Identifier: Apache-2.0
"""What can be told, before it is put into words: small, typed, cheap to make whether somebody listens or not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.conductor.workflow_engine.workflow import Failure
from kilonova.model.aggregate import Aggregate
from kilonova.model.audit_periods import Period
from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.host import Service
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.keypair import Keypair
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import ServerGroup
from kilonova.notifications.message import Phase, Source


@dataclass(frozen=True, slots=True)
class Details:
    """What some actions tell beside the server.

    ``key``: whose owner may log in. ``new_flavor``: of a resize. ``image_id``: that a snapshot makes, or that a server
    is rescued with. ``forced``: of a delete that was asked for as forceDelete.
    """

    key: PublicKey | None = None
    new_flavor: Flavor | None = None
    image_id: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class ServerActed:
    """Something was done to a server. ``host``: of the service that says so; None for the one that tells.

    ``kind``: of the workflow in which ``failure`` happened.
    """

    action: str
    phase: Phase | None
    instance: Instance
    source: Source = Source.COMPUTE
    host: str | None = None
    kind: str = ""
    failure: Failure | None = None
    details: Details = field(default_factory=Details)


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """A server shows another state, or is described otherwise. ``old_name``: None where the name is the same."""

    instance: Instance
    old_state: VmState | None
    old_task: TaskState | None
    source: Source = Source.COMPUTE
    host: str | None = None
    old_name: str | None = None


@dataclass(frozen=True, slots=True)
class ServerExists:
    """A server was there in a period; None stands for what is over of the present one."""

    instance: Instance
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class HostsSought:
    """The scheduler is asked (``start``), or has found hosts (``end``)."""

    phase: Phase
    spec: RequestSpec


@dataclass(frozen=True, slots=True)
class NoHostFound:
    """There is no host for a server. ``method``: what came to nothing by that."""

    method: str
    instance_uuid: str
    state: VmState | None
    kind: str
    failure: Failure
    spec: RequestSpec | None = None


@dataclass(frozen=True, slots=True)
class HostFailed:
    """A host could not do what it was asked to do for a server."""

    host: str
    instance_uuid: str
    kind: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class AggregateActed:
    """An administrator has changed an aggregate, told in one phase.

    ``aggregate``: as it is then. ``host``: that came or went; ``metadata``: as they were asked for.
    """

    action: str
    phase: Phase
    aggregate: Aggregate
    host: str | None = None
    metadata: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class HostFetchedImages:
    """A host of an aggregate has fetched images, or could not. ``index``: of so many (``total``) hosts."""

    aggregate: Aggregate
    host: str
    cached: tuple[str, ...]
    failed: tuple[str, ...]
    index: int
    total: int


@dataclass(frozen=True, slots=True)
class FlavorActed:
    """A flavor was made, changed or deleted. ``projects``: those that may use a private one."""

    action: str
    flavor: Flavor
    projects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class KeypairActed:
    """A user has a key pair, or has it no more."""

    action: str
    phase: Phase
    keypair: Keypair


@dataclass(frozen=True, slots=True)
class GroupActed:
    """A server group was made or deleted, or has ``new_members``."""

    action: str
    group: ServerGroup
    new_members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceActed:
    """A service is there for the first time, was changed, or was deleted."""

    action: str
    service: Service


Happening = (
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
