# SPDX-License-Identifier: Apache-2.0
"""Options of [DEFAULT] for hosts, availability zones and services."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass

#: Values of ``servicegroup_driver`` that name no external class.
HEARTBEATS, MEMCACHED = "db", "mc"


@dataclass(frozen=True, slots=True)
class ComputeSettings:
    """Options of compute hosts and of their services. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "DEFAULT"

    compute_driver: Annotated[
        str,
        Option(
            "Virt driver of an agent process: fake.FakeDriver for the simulated hosts of [fake]; libvirt.LibvirtDriver "
            "for real guests on this machine; the name of an entry point in kilonova.compute.drivers, or the dotted "
            "path of a class, for an external driver."
        ),
    ] = "fake.FakeDriver"
    host: Annotated[str | None, Option("Name of the host, if it is not simulated; unset: the machine's host name.")] = (
        None
    )
    control_serves_host: Annotated[
        bool,
        Option(
            "Whether a control process runs the agent of compute_driver's host in addition to the simulated hosts of "
            "[fake]; set it for one control process at most (Kilonova's own)."
        ),
    ] = False
    instances_path: Annotated[
        Path | None,
        Option("Folder in which hosts keep their guests; [fake] state_dir overrides it for simulated hosts."),
    ] = None
    service_down_time_s: Annotated[
        int,
        Option("Seconds without a heartbeat after which a service counts as down.", name="service_down_time", min=1),
    ] = 60
    servicegroup_driver: Annotated[
        str,
        Option(
            f"Source of the states of hosts, besides heartbeats: none ({HEARTBEATS}), or an external class that "
            "declares hosts down: its dotted path, or an entry point of kilonova.servicegroup.drivers."
        ),
    ] = HEARTBEATS
    report_interval_s: Annotated[
        int, Option("Seconds between two heartbeats of an agent.", name="report_interval", min=1)
    ] = 10
    default_availability_zone: Annotated[str, Option("Availability zone shown for hosts that are in none.")] = "nova"
    default_schedule_zone: Annotated[str | None, Option("Availability zone of servers whose request names none.")] = (
        None
    )
    internal_service_availability_zone: Annotated[str, Option()] = "internal"
    initial_cpu_allocation_ratio: Annotated[float, Option(min=0.0)] = 4.0
    initial_ram_allocation_ratio: Annotated[float, Option(min=0.0)] = 1.0
    initial_disk_allocation_ratio: Annotated[float, Option(min=0.0)] = 1.0
    cpu_allocation_ratio: Annotated[float | None, Option(min=0.0)] = None
    ram_allocation_ratio: Annotated[float | None, Option(min=0.0)] = None
    disk_allocation_ratio: Annotated[float | None, Option(min=0.0)] = None
    reserved_host_memory_mib: Annotated[int, Option(name="reserved_host_memory_mb", min=0)] = 512
    running_deleted_instance_action: Annotated[
        str,
        Option(
            "Treatment of a guest found on a host although its server is deleted: noop ignores it, log logs it on each "
            "report, shutdown logs it and powers it off, and reap destroys it.",
            choices=("noop", "log", "shutdown", "reap"),
        ),
    ] = "reap"
    running_deleted_instance_poll_interval_s: Annotated[
        int,
        Option(
            "Seconds between two reports of all guests of a host, after which control processes remove stray guests. "
            "0 stands for 60; a negative value: guests are reported only when the agent starts.",
            name="running_deleted_instance_poll_interval",
        ),
    ] = 1800
    update_resources_interval_s: Annotated[
        int,
        Option(
            "Interval at which an agent reads the resources of its host and reports changes, in seconds. 0 stands for "
            "60; a negative value: resources are read only when the agent starts.",
            name="update_resources_interval",
        ),
    ] = 0
    running_deleted_instance_timeout_s: Annotated[
        int,
        Option(
            "Seconds since the deletion of a server before running_deleted_instance_action applies to its guest.",
            name="running_deleted_instance_timeout",
            min=0,
        ),
    ] = 0
    max_concurrent_builds: Annotated[
        int, Option("Most concurrent builds on a host; other servers wait in BUILD. 0: no limit.", min=0)
    ] = 10
    max_concurrent_live_migrations: Annotated[
        int,
        Option("Most concurrent live migrations away from a host; others are queued. 0: no limit.", min=0),
    ] = 1
    max_local_block_devices: Annotated[
        int,
        Option(
            "Most local disks of a new server whose request lists its disks, with the root disk. -1: no limit.", min=-1
        ),
    ] = 3
    force_config_drive: Annotated[
        bool, Option("Whether every server gets a config drive, even if its request does not ask for one.")
    ] = False
    config_drive_format: Annotated[
        str, Option("Format of config drives. Nova's vfat is not supported.", choices=("iso9660",))
    ] = "iso9660"
    max_concurrent_snapshots: Annotated[
        int,
        Option("Most concurrent snapshots of disks on a host, including their upload. 0: no limit.", min=0),
    ] = 5
    non_inheritable_image_properties: Annotated[
        tuple[str, ...],
        Option("Image properties that a snapshot or backup of a server does not inherit from the server's image."),
    ] = ("cache_in_nova", "bittorrent")
    shutdown_timeout_s: Annotated[
        float,
        Option(
            "When a server is stopped: seconds that its guest has to shut down before it is powered off. The image "
            "property os_shutdown_timeout overrides it.",
            name="shutdown_timeout",
            min=0,
        ),
    ] = 60.0
    wait_soft_reboot_s: Annotated[
        float,
        Option(
            "In a soft reboot: seconds that the guest has to shut down before it is powered off.",
            name="wait_soft_reboot_seconds",
            group="libvirt",
            min=0,
        ),
    ] = 120.0
    sync_power_state_interval_s: Annotated[
        int,
        Option(
            "Interval of a host's reports of all power states, in seconds. 0 stands for 60; a negative value turns "
            "these reports off.",
            name="sync_power_state_interval",
        ),
    ] = 600
    handle_virt_lifecycle_events: Annotated[
        bool,
        Option(
            "Whether agents report at once when a guest changes its power state without an order.", group="workarounds"
        ),
    ] = True
    resume_guests_state_on_host_boot: Annotated[
        bool, Option("Whether guests that ran before their host lost power run again when its agent starts.")
    ] = False
    allow_resize_to_same_host: Annotated[
        bool, Option("Whether a resize may keep a server on its host if the host has room for the new flavor.")
    ] = False
    report_images: Annotated[
        bool,
        Option(
            "Whether hosts report their cached images to the scheduler, for ImageCacheWeigher (Kilonova's own).",
            group="image_cache",
        ),
    ] = False
