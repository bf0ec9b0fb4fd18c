# SPDX-License-Identifier: Apache-2.0
"""Instances and their states: ``vm_state`` is the settled state, ``task_state`` the running operation, ``power_state``
the state on the hypervisor.

::

    building ──spawn──▶ active ◀──start── stopped        any ──delete──▶ deleted
        │                 │  └────stop─────▶ ▲            any ──failure─▶ error
        └──no host/fail──▶ error
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import IntEnum, StrEnum

from kilonova.model.config_drive import ConfigDrive
from kilonova.model.flavor import Flavor
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.image_data import ImageData
from kilonova.model.local_disk import EphemeralDisk
from kilonova.model.network_info import NetworkInfo
from kilonova.records import dataclass


class VmState(StrEnum):
    ACTIVE = "active"
    BUILDING = "building"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    RESCUED = "rescued"
    RESIZED = "resized"
    SOFT_DELETED = "soft-delete"
    DELETED = "deleted"
    ERROR = "error"
    SHELVED = "shelved"
    SHELVED_OFFLOADED = "shelved_offloaded"


class TaskState(StrEnum):
    SCHEDULING = "scheduling"
    BLOCK_DEVICE_MAPPING = "block_device_mapping"
    NETWORKING = "networking"
    SPAWNING = "spawning"
    IMAGE_SNAPSHOT = "image_snapshot"
    IMAGE_SNAPSHOT_PENDING = "image_snapshot_pending"
    IMAGE_PENDING_UPLOAD = "image_pending_upload"
    IMAGE_UPLOADING = "image_uploading"
    IMAGE_BACKUP = "image_backup"
    UPDATING_PASSWORD = "updating_password"  # noqa: S105
    RESIZE_PREP = "resize_prep"
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_FINISH = "resize_finish"
    RESIZE_REVERTING = "resize_reverting"
    RESIZE_CONFIRMING = "resize_confirming"
    REBOOTING = "rebooting"
    REBOOT_PENDING = "reboot_pending"
    REBOOT_STARTED = "reboot_started"
    REBOOTING_HARD = "rebooting_hard"
    REBOOT_PENDING_HARD = "reboot_pending_hard"
    REBOOT_STARTED_HARD = "reboot_started_hard"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    POWERING_OFF = "powering-off"
    POWERING_ON = "powering-on"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    REBUILDING = "rebuilding"
    REBUILD_BLOCK_DEVICE_MAPPING = "rebuild_block_device_mapping"
    REBUILD_SPAWNING = "rebuild_spawning"
    MIGRATING = "migrating"
    DELETING = "deleting"
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    SHELVING = "shelving"
    SHELVING_IMAGE_PENDING_UPLOAD = "shelving_image_pending_upload"
    SHELVING_IMAGE_UPLOADING = "shelving_image_uploading"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"


class PowerState(IntEnum):
    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


class LockedBy(StrEnum):
    """Who locked a server. ``OWNER``: a user of its project. ``ADMIN``: an administrator of another project."""

    OWNER = "owner"
    ADMIN = "admin"


_IO_HEAVY_TASKS = frozenset(
    {
        TaskState.RESIZE_MIGRATING,
        TaskState.REBUILDING,
        TaskState.RESIZE_PREP,
        TaskState.IMAGE_SNAPSHOT,
        TaskState.IMAGE_BACKUP,
        TaskState.RESCUING,
        TaskState.UNSHELVING,
    }
)


def is_io_heavy(vm_state: str, task_state: str | None) -> bool:
    """Tell whether an instance counts towards its host's I/O workload. Source: spec SCHEDULER §5."""
    return vm_state == VmState.BUILDING or task_state in _IO_HEAVY_TASKS


@dataclass(frozen=True, slots=True)
class Fault:
    """Error of an instance's last failed operation. If ``code`` is 500, only administrators may see ``details``."""

    code: int
    message: str
    details: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance. ``id``: number in the guest's name on the hypervisor.

    ``flavor``: copy of the flavor, which later changes of the flavor do not affect. ``image_properties``: properties of
    the image when the instance was created. ``request_spec_uuid``: uuid of the stored request spec. ``shelved_image``:
    id of the image from which a shelved server is unshelved; ``shelved_at``: when the server was shelved.
    ``tags`` and ``fault`` come last, because they are not columns of the table of instances.
    """

    id: int
    uuid: str
    name: str
    project_id: str
    user_id: str
    vm_state: VmState
    flavor: Flavor
    task_state: TaskState | None = None
    power_state: PowerState = PowerState.NOSTATE
    hostname: str = ""
    description: str | None = None
    host: str | None = None
    node: str | None = None
    image_ref: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    key_name: str | None = None
    config_drive: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    reservation_id: str = ""
    launch_index: int = 0
    availability_zone: str | None = None
    disk_config: str = "MANUAL"
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    progress: int = 0
    locked_by: str | None = None
    locked_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    launched_at: datetime | None = None
    terminated_at: datetime | None = None
    deleted_at: datetime | None = None
    request_spec_uuid: str | None = None
    shelved_image: str | None = None
    shelved_at: datetime | None = None
    tags: tuple[str, ...] = ()
    fault: Fault | None = None

    @property
    def instance_name(self) -> str:
        return f"instance-{self.id:08x}"


_REBUILD_TASKS = frozenset({TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING})
_RESIZE_TASKS = frozenset(
    {TaskState.RESIZE_PREP, TaskState.RESIZE_MIGRATING, TaskState.RESIZE_MIGRATED, TaskState.RESIZE_FINISH}
)
_OVERRIDES: Mapping[VmState, Mapping[TaskState, str]] = {
    VmState.ACTIVE: {
        **dict.fromkeys((TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED), "REBOOT"),
        **dict.fromkeys(
            (TaskState.REBOOTING_HARD, TaskState.REBOOT_PENDING_HARD, TaskState.REBOOT_STARTED_HARD), "HARD_REBOOT"
        ),
        TaskState.UPDATING_PASSWORD: "PASSWORD",
        **dict.fromkeys(_REBUILD_TASKS, "REBUILD"),
        TaskState.MIGRATING: "MIGRATING",
        **dict.fromkeys(_RESIZE_TASKS, "RESIZE"),
    },
    VmState.STOPPED: {**dict.fromkeys(_RESIZE_TASKS, "RESIZE"), **dict.fromkeys(_REBUILD_TASKS, "REBUILD")},
    VmState.RESIZED: {TaskState.RESIZE_REVERTING: "REVERT_RESIZE"},
    VmState.PAUSED: {TaskState.MIGRATING: "MIGRATING"},
    VmState.ERROR: dict.fromkeys(_REBUILD_TASKS, "REBUILD"),
}
_DEFAULT_STATUS: Mapping[VmState, str] = {
    VmState.ACTIVE: "ACTIVE",
    VmState.BUILDING: "BUILD",
    VmState.STOPPED: "SHUTOFF",
    VmState.RESIZED: "VERIFY_RESIZE",
    VmState.PAUSED: "PAUSED",
    VmState.SUSPENDED: "SUSPENDED",
    VmState.RESCUED: "RESCUE",
    VmState.ERROR: "ERROR",
    VmState.DELETED: "DELETED",
    VmState.SOFT_DELETED: "SOFT_DELETED",
    VmState.SHELVED: "SHELVED",
    VmState.SHELVED_OFFLOADED: "SHELVED_OFFLOADED",
}


def status_of(vm_state: VmState, task_state: TaskState | None) -> str:
    """Return the API status of a server with this vm_state and task_state. Source: spec LIFECYCLE §5."""
    if task_state is not None and (special := _OVERRIDES.get(vm_state, {}).get(task_state)) is not None:
        return special
    return _DEFAULT_STATUS[vm_state]


def states_of(status: str) -> tuple[tuple[VmState, frozenset[TaskState | None]], ...]:
    """Return the (vm_state, task_states) pairs that the API shows as ``status``; () for an unknown status."""
    wanted = status.upper()
    tasks: tuple[TaskState | None, ...] = (None, *TaskState)
    found: dict[VmState, set[TaskState | None]] = {}
    for vm_state in VmState:
        for task_state in tasks:
            if status_of(vm_state, task_state) == wanted:
                found.setdefault(vm_state, set()).add(task_state)
    return tuple((vm_state, frozenset(tasks)) for vm_state, tasks in found.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSpec:
    """Specification from which a hypervisor driver creates a guest. Units are in the names of the fields.

    ``reserved``: NUMA cells, pinned CPUs and PCI devices of the host that are reserved for the guest.
    ``image``: location of the image data; None in a cloud without an image service.
    ``ordered_at``: time when the conductor ordered the creation. The driver stores this time in the guest's metadata;
    it is Kilonova's mark, by which guests of Kilonova are recognised.
    ``config_drive``: contents of the config drive; None if the guest has no config drive.
    ``vifs``: network interfaces, in the order in which the guest sees them. ``starts_paused``: the driver may start the
    guest paused, since the network service has still to plug an interface; the guest is then unpaused by an order.
    ``requested_ephemeral``: the ephemeral disks that the user requested; then ``ephemeral_gib`` is 0. ``swap_bus``: bus
    of the swap disk; None for the bus of the root disk.
    ``user_data``: may contain secrets, so ``repr`` omits it, and logs never contain it.
    """

    uuid: str
    name: str
    hostname: str
    vcpus: int
    memory_mib: int
    root_gib: int
    ephemeral_gib: int = 0
    swap_mib: int = 0
    image_ref: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    project_id: str = ""
    user_id: str = ""
    key_name: str | None = None
    user_data: str | None = field(default=None, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)
    reserved: GuestDevices = field(default_factory=GuestDevices)
    image: ImageData | None = None
    ordered_at: datetime | None = None
    config_drive: ConfigDrive | None = None
    vifs: NetworkInfo = ()
    starts_paused: bool = False
    requested_ephemeral: tuple[EphemeralDisk, ...] = ()
    swap_bus: str | None = None

    @property
    def ephemeral(self) -> tuple[EphemeralDisk, ...]:
        """The ephemeral disks: those that the user requested, or else the one of the flavor."""
        return self.requested_ephemeral or ((EphemeralDisk(self.ephemeral_gib),) if self.ephemeral_gib else ())
