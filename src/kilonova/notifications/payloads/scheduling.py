# SPDX-License-Identifier: Apache-2.0
"""Payloads of scheduler requests and of requests without a valid host."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kilonova.model.image import Image
from kilonova.model.image_properties import KNOWN_PROPERTIES, present_name
from kilonova.model.request_spec import RequestSpec
from kilonova.notifications.payloads.faults import ExceptionPayload
from kilonova.notifications.payloads.payload import Payload, envelope
from kilonova.notifications.payloads.resources import FlavorPayload
from kilonova.records import dataclass

_PROPERTIES_VERSION = "1.20"
#: Image property with the id of a secret. This property is never sent.
_SECRET = "hw_ephemeral_encryption_secret_uuid"  # noqa: S105


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetaPayload(Payload):
    """An image, with the fields that the scheduler knows. All other fields, such as owner and created_at, are None."""

    VERSION: ClassVar[str] = "1.0"

    id: str
    name: str
    status: str
    visibility: str | None
    protected: bool | None
    checksum: str | None
    owner: str | None
    size: int
    virtual_size: int | None
    container_format: str
    disk_format: str
    created_at: str | None
    updated_at: str | None
    tags: Sequence[str] | None
    direct_url: str | None
    min_ram: int
    min_disk: int
    properties: Mapping[str, Any]

    @classmethod
    def of(cls, image: Image) -> "ImageMetaPayload":
        named = {present_name(name): value for name, value in image.properties.items()}
        known = {name: value for name, value in named.items() if name in KNOWN_PROPERTIES and name != _SECRET}
        return cls(
            id=image.id,
            name=image.name,
            status=image.status,
            visibility=None,
            protected=None,
            checksum=None,
            owner=None,
            size=image.size_bytes,
            virtual_size=None,
            container_format=image.container_format,
            disk_format=image.disk_format,
            created_at=None,
            updated_at=None,
            tags=None,
            direct_url=None,
            min_ram=image.min_memory_mib,
            min_disk=image.min_disk_gib,
            properties=envelope("ImageMetaPropsPayload", _PROPERTIES_VERSION, known),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationPayload(Payload):
    """The requested destination."""

    VERSION: ClassVar[str] = "1.0"

    host: str | None
    node: str | None
    cell: None
    aggregates: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRetriesPayload(Payload):
    """Retries of a build. ``num_attempts``: number of attempts; ``hosts``: nodes on which the build failed."""

    VERSION: ClassVar[str] = "1.0"

    num_attempts: int
    hosts: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpecPayload(Payload):
    """A scheduler request. ``instance_uuid``: uuid of the first of ``num_instances`` servers.

    ``numa_topology``, ``pci_requests`` and ``instance_group`` are always None: consumers can derive them from flavor,
    image and hints.
    """

    VERSION: ClassVar[str] = "1.1"

    instance_uuid: str
    project_id: str
    user_id: str
    availability_zone: str | None
    flavor: FlavorPayload
    force_hosts: str | None
    force_nodes: str | None
    ignore_hosts: Sequence[str] | None
    image_meta: None
    instance_group: None
    image: ImageMetaPayload | None
    numa_topology: None
    pci_requests: None
    num_instances: int
    requested_destination: DestinationPayload | None
    retry: SchedulerRetriesPayload | None
    scheduler_hints: Mapping[str, Sequence[str]]
    security_groups: Sequence[str]

    @classmethod
    def of(cls, spec: RequestSpec) -> "RequestSpecPayload":
        wanted = spec.requested_host is not None or spec.requested_node is not None
        destination = DestinationPayload(host=spec.requested_host, node=spec.requested_node, cell=None, aggregates=None)
        retries = SchedulerRetriesPayload(num_attempts=len(spec.tried) + 1, hosts=[node for _, node in spec.tried])
        return cls(
            instance_uuid=spec.instance_uuids[0] if spec.instance_uuids else "",
            project_id=spec.project_id,
            user_id=spec.user_id,
            availability_zone=spec.availability_zone,
            flavor=FlavorPayload.of(spec.flavor),
            force_hosts=spec.force_host,
            force_nodes=spec.force_node,
            ignore_hosts=sorted(spec.ignore_hosts) or None,
            image_meta=None,
            instance_group=None,
            image=None if spec.image is None else ImageMetaPayload.of(spec.image),
            numa_topology=None,
            pci_requests=None,
            num_instances=spec.num_instances,
            requested_destination=destination if wanted else None,
            retry=retries if spec.tried else None,
            scheduler_hints=spec.hints,
            security_groups=(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTaskPayload(Payload):
    """A server without a valid host. ``state``: the current vm_state of the server."""

    VERSION: ClassVar[str] = "1.0"

    instance_uuid: str
    request_spec: RequestSpecPayload | None
    state: str | None
    reason: ExceptionPayload
