# SPDX-License-Identifier: Apache-2.0
"""Payloads of flavors, key pairs, aggregates, server groups and services."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from kilonova.model.aggregate import Aggregate
from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.host import COMPUTE, Service
from kilonova.model.keypair import Keypair
from kilonova.model.server_group import ServerGroup
from kilonova.notifications.payloads.payload import Payload
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPayload(Payload):
    """A flavor. ``projects``: projects with access to a private flavor; None if they were not read, as in Nova."""

    VERSION: ClassVar[str] = "1.4"

    flavorid: str
    memory_mb: int
    vcpus: int
    root_gb: int
    ephemeral_gb: int
    name: str
    swap: int
    rxtx_factor: float
    vcpu_weight: int
    disabled: bool
    is_public: bool
    extra_specs: Mapping[str, str]
    projects: Sequence[str] | None
    description: str | None

    @classmethod
    def of(cls, flavor: Flavor, projects: Sequence[str] | None = None) -> "FlavorPayload":
        return cls(
            flavorid=flavor.flavor_id,
            memory_mb=flavor.memory_mib,
            vcpus=flavor.vcpus,
            root_gb=flavor.root_gib,
            ephemeral_gb=flavor.ephemeral_gib,
            name=flavor.name,
            swap=flavor.swap_mib,
            rxtx_factor=flavor.rxtx_factor,
            vcpu_weight=0,
            disabled=flavor.disabled,
            is_public=flavor.is_public,
            extra_specs=flavor.extra_specs,
            projects=projects,
            description=flavor.description,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeypairPayload(Payload):
    """A public key. ``fingerprint``: None for a server's copy of the key."""

    VERSION: ClassVar[str] = "1.0"

    user_id: str
    name: str
    fingerprint: str | None
    public_key: str
    type: str

    @classmethod
    def of(cls, keypair: Keypair) -> "KeypairPayload":
        return cls(
            user_id=keypair.user_id,
            name=keypair.name,
            fingerprint=keypair.fingerprint,
            public_key=keypair.public_key,
            type=keypair.type,
        )

    @classmethod
    def of_server(cls, user_id: str, key: PublicKey) -> "KeypairPayload":
        return cls(user_id=user_id, name=key.name, fingerprint=None, public_key=key.data, type=key.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatePayload(Payload):
    """An aggregate. ``id``: None in ``aggregate.create.start``."""

    VERSION: ClassVar[str] = "1.1"

    id: int | None
    uuid: str
    name: str
    hosts: Sequence[str] | None
    metadata: Mapping[str, str] | None

    @classmethod
    def of(cls, aggregate: Aggregate) -> "AggregatePayload":
        return cls(
            id=aggregate.id,
            uuid=aggregate.uuid,
            name=aggregate.name,
            hosts=aggregate.hosts,
            metadata=aggregate.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCachePayload(Payload):
    """Progress of caching images on an aggregate: ``index`` of ``total`` hosts have finished."""

    VERSION: ClassVar[str] = "1.0"

    id: int
    uuid: str
    name: str
    host: str
    images_cached: Sequence[str]
    images_failed: Sequence[str]
    index: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroupPayload(Payload):
    """A server group. ``hosts`` is None, as in Nova."""

    VERSION: ClassVar[str] = "1.1"

    uuid: str
    name: str
    user_id: str
    project_id: str
    policies: Sequence[str]
    members: Sequence[str]
    hosts: Sequence[str] | None
    policy: str
    rules: Mapping[str, str]

    @classmethod
    def of(cls, group: ServerGroup) -> "ServerGroupPayload":
        return cls(
            uuid=group.uuid,
            name=group.name,
            user_id=group.user_id,
            project_id=group.project_id,
            policies=(group.policy,),
            members=group.members,
            hosts=None,
            policy=group.policy,
            rules={"max_server_per_host": str(group.max_server_per_host)} if group.has_rules else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatusPayload(Payload):
    """A service. ``report_count`` and ``version`` are always 0, because Kilonova's services have no such fields."""

    VERSION: ClassVar[str] = "1.1"

    host: str
    binary: str
    topic: str
    report_count: int
    disabled: bool
    disabled_reason: str | None
    availability_zone: str | None
    last_seen_up: datetime | None
    forced_down: bool
    version: int
    uuid: str

    @classmethod
    def of(cls, service: Service) -> "ServiceStatusPayload":
        return cls(
            host=service.host,
            binary=service.binary,
            topic="compute" if service.binary == COMPUTE else service.binary.removeprefix("nova-"),
            report_count=0,
            disabled=service.disabled,
            disabled_reason=service.disabled_reason,
            availability_zone=None,
            last_seen_up=service.last_seen_at,
            forced_down=service.forced_down,
            version=0,
            uuid=service.uuid,
        )
