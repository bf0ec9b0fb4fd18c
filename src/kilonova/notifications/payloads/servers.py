# SPDX-License-Identifier: Apache-2.0
"""Payloads of servers. Only the fields listed here are sent: no password, user data or token."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from kilonova.model.image_properties import present_name
from kilonova.model.instance import Instance, PowerState
from kilonova.model.network_info import NetworkInfo
from kilonova.model.requester import Requester
from kilonova.notifications.payloads.faults import ExceptionPayload
from kilonova.notifications.payloads.payload import Payload
from kilonova.notifications.payloads.resources import FlavorPayload, KeypairPayload
from kilonova.records import dataclass

_POWER_STATES: Mapping[PowerState, str] = {
    PowerState.NOSTATE: "pending",
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IpPayload(Payload):
    """A fixed address of a server. ``label``: name of its network. ``device_name``: name of the tap device."""

    VERSION: ClassVar[str] = "1.0"

    label: str
    mac: str
    meta: Mapping[str, str]
    port_uuid: str
    version: int
    address: str
    device_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePayload(Payload):
    """A server at the time of the event.

    ``ip_addresses``: fixed addresses, as objects of IpPayload. ``block_devices``, ``shares``: None by default; empty
    if ``bdms_in_notifications`` or ``include_share_mapping`` is set, because Kilonova has no volumes and no shares.
    ``request_id``, ``action_initiator_user``, ``action_initiator_project``: None for an event without a requester.
    """

    VERSION: ClassVar[str] = "1.9"

    uuid: str
    user_id: str
    tenant_id: str
    reservation_id: str
    display_name: str
    display_description: str | None
    host_name: str
    host: str | None
    node: str | None
    os_type: str | None
    architecture: str | None
    availability_zone: str | None
    flavor: FlavorPayload
    image_uuid: str
    key_name: str | None
    kernel_id: str
    ramdisk_id: str
    created_at: datetime | None
    launched_at: datetime | None
    terminated_at: datetime | None
    deleted_at: datetime | None
    updated_at: datetime | None
    state: str
    power_state: str
    task_state: str | None
    progress: int
    ip_addresses: Sequence[IpPayload]
    block_devices: Sequence[Any] | None
    metadata: Mapping[str, str]
    locked: bool
    auto_disk_config: str
    request_id: str | None
    action_initiator_user: str | None
    action_initiator_project: str | None
    locked_reason: str | None
    shares: Sequence[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActionPayload(InstancePayload):
    """An action on a server. ``fault``: the failure in phase ``error``, otherwise None."""

    VERSION: ClassVar[str] = "1.9"

    fault: ExceptionPayload | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCreatePayload(InstanceActionPayload):
    """Creation of a server. ``instance_name``: name of the server's guest on the host."""

    VERSION: ClassVar[str] = "1.13"

    keypairs: Sequence[KeypairPayload]
    tags: Sequence[str]
    trusted_image_certificates: Sequence[str] | None
    instance_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActionResizePrepPayload(InstanceActionPayload):
    """Start of a resize. ``flavor``: current flavor of the server. ``new_flavor``: the requested flavor."""

    VERSION: ClassVar[str] = "1.4"

    new_flavor: FlavorPayload | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActionRescuePayload(InstanceActionPayload):
    """Rescue of a server. ``rescue_image_ref``: the rescue image."""

    VERSION: ClassVar[str] = "1.4"

    rescue_image_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActionRebuildPayload(InstanceActionPayload):
    """Rebuild of a server. ``image_uuid``: the new image."""

    VERSION: ClassVar[str] = "1.10"

    trusted_image_certificates: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActionSnapshotPayload(InstanceActionPayload):
    """Snapshot of a server. ``snapshot_image_id``: the new image."""

    VERSION: ClassVar[str] = "1.10"

    snapshot_image_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPeriodPayload(Payload):
    """Start and end of an audit period."""

    VERSION: ClassVar[str] = "1.0"

    audit_period_beginning: datetime
    audit_period_ending: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStateUpdatePayload(Payload):
    """The vm_state and task_state before and after a change."""

    VERSION: ClassVar[str] = "1.0"

    old_state: str | None
    state: str
    old_task_state: str | None
    new_task_state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUpdatePayload(InstancePayload):
    """A change of a server. ``old_display_name``: None if the name is unchanged."""

    VERSION: ClassVar[str] = "2.1"

    state_update: InstanceStateUpdatePayload
    audit_period: AuditPeriodPayload
    old_display_name: str | None
    tags: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceExistsPayload(InstancePayload):
    """Existence of a server in a completed audit period, or from the start of the current audit period until now."""

    VERSION: ClassVar[str] = "2.1"

    audit_period: AuditPeriodPayload


def common_fields(
    instance: Instance, interfaces: NetworkInfo, who: Requester | None, *, bdms: bool, shares: bool
) -> dict[str, Any]:
    """Return the fields of every server payload. ``who``: the requester, or None if the event has none."""
    properties = {present_name(name): value for name, value in instance.image_properties.items()}
    return {
        "uuid": instance.uuid,
        "user_id": instance.user_id,
        "tenant_id": instance.project_id,
        "reservation_id": instance.reservation_id,
        "display_name": instance.name,
        "display_description": instance.description,
        "host_name": instance.hostname,
        "host": instance.host,
        "node": instance.node,
        "os_type": properties.get("os_type"),
        "architecture": properties.get("hw_architecture"),
        "availability_zone": instance.availability_zone,
        "flavor": FlavorPayload.of(instance.flavor),
        "image_uuid": instance.image_ref or "",
        "key_name": instance.key_name,
        "kernel_id": properties.get("kernel_id", ""),
        "ramdisk_id": properties.get("ramdisk_id", ""),
        "created_at": instance.created_at,
        "launched_at": instance.launched_at,
        "terminated_at": instance.terminated_at,
        "deleted_at": instance.deleted_at,
        "updated_at": instance.updated_at,
        "state": instance.vm_state.value,
        "power_state": _POWER_STATES[instance.power_state],
        "task_state": None if instance.task_state is None else instance.task_state.value,
        "progress": instance.progress,
        "ip_addresses": tuple(_addresses(interfaces)),
        "block_devices": () if bdms else None,
        "metadata": instance.metadata,
        "locked": instance.locked_by is not None,
        "auto_disk_config": instance.disk_config,
        "request_id": None if who is None else who.request_id,
        "action_initiator_user": None if who is None else who.user_id,
        "action_initiator_project": None if who is None else who.project_id,
        "locked_reason": instance.locked_reason,
        "shares": () if shares else None,
    }


def _addresses(interfaces: NetworkInfo) -> Iterator[IpPayload]:
    for vif in interfaces:
        for subnet, fixed in vif.addresses:
            yield IpPayload(
                label=vif.network.label,
                mac=vif.mac,
                meta={},
                port_uuid=vif.port_id,
                version=subnet.version,
                address=fixed.address,
                device_name=vif.device_name,
            )
