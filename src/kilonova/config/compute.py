# SPDX-License-Identifier: Apache-2.0
"""What [DEFAULT] says of hosts, their zones and their services."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class ComputeSettings:
    """Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "DEFAULT"

    compute_driver: Annotated[
        str,
        Option(
            "What an agent process serves: fake.FakeDriver for the simulated hosts of [fake]; libvirt.LibvirtDriver "
            "for real guests of this machine; the name of an entry point in kilonova.compute.drivers, or the dotted "
            "path of a class, for a hypervisor driver from outside."
        ),
    ] = "fake.FakeDriver"
    host: Annotated[
        str | None, Option("Name of the host that is served and not simulated; unset: that of the machine.")
    ] = None
    control_serves_host: Annotated[
        bool,
        Option(
            "Whether a control process serves the host of compute_driver, too, beside the simulated ones of [fake]; "
            "one control process at most may do so (Kilonova's own)."
        ),
    ] = False
    instances_path: Annotated[
        Path | None, Option("Folder in which hosts keep their guests; for simulated ones [fake] state_dir wins.")
    ] = None
    service_down_time_s: Annotated[
        int, Option("Seconds after which a silent service counts as down.", name="service_down_time", min=1)
    ] = 60
    report_interval_s: Annotated[
        int, Option("Seconds between two heartbeats of an agent.", name="report_interval", min=1)
    ] = 10
    default_availability_zone: Annotated[str, Option("Zone shown for hosts in no zone.")] = "nova"
    default_schedule_zone: Annotated[str | None, Option("Zone used when a request names none.")] = None
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
            "What becomes of the guest of a deleted server that a host still has: noop leaves it alone, log says so in "
            "the log each time, shutdown powers it off, too, and reap destroys it.",
            choices=("noop", "log", "shutdown", "reap"),
        ),
    ] = "reap"
    running_deleted_instance_poll_interval_s: Annotated[
        int,
        Option(
            "Seconds between two reports of the guests of a host, after which guests that have to go are removed. "
            "0 stands for 60; a negative value: only at the start of an agent.",
            name="running_deleted_instance_poll_interval",
        ),
    ] = 1800
    update_resources_interval_s: Annotated[
        int,
        Option(
            "Seconds after which a host is looked at again, and reported if its hypervisor has changed. 0 stands for "
            "60; a negative value: only at the start of an agent.",
            name="update_resources_interval",
        ),
    ] = 0
    running_deleted_instance_timeout_s: Annotated[
        int,
        Option(
            "Seconds for which a server has to be deleted before anything is done about its guest.",
            name="running_deleted_instance_timeout",
            min=0,
        ),
    ] = 0
    max_concurrent_builds: Annotated[
        int, Option("How many guests a host makes at a time; others wait in BUILD. 0: any number.", min=0)
    ] = 10
    max_concurrent_live_migrations: Annotated[
        int,
        Option("How many live migrations a host sends out at a time; others are queued. 0: any number.", min=0),
    ] = 1
    force_config_drive: Annotated[
        bool, Option("Whether every server gets a config drive, whatever is asked for it.")
    ] = False
    config_drive_format: Annotated[
        str, Option("Format of config drives. The other one of Nova's, vfat, is not offered.", choices=("iso9660",))
    ] = "iso9660"
    max_concurrent_snapshots: Annotated[
        int,
        Option("How many disks a host copies and uploads as images at once; 0 stands for any number.", min=0),
    ] = 5
    non_inheritable_image_properties: Annotated[
        tuple[str, ...],
        Option("Properties of a server's image that an image of the server does not get."),
    ] = ("cache_in_nova", "bittorrent")
    shutdown_timeout_s: Annotated[
        float,
        Option(
            "Seconds that a guest has to shut down when its server is stopped, before it is powered off. The image "
            "property os_shutdown_timeout overrides it.",
            name="shutdown_timeout",
            min=0,
        ),
    ] = 60.0
    wait_soft_reboot_s: Annotated[
        float,
        Option(
            "Seconds that a guest has to shut down in a soft reboot, before it is powered off.",
            name="wait_soft_reboot_seconds",
            group="libvirt",
            min=0,
        ),
    ] = 120.0
    sync_power_state_interval_s: Annotated[
        int,
        Option(
            "Seconds between two reports of the power states of all guests of a host. 0 stands for 60; a negative "
            "value for none.",
            name="sync_power_state_interval",
        ),
    ] = 600
    handle_virt_lifecycle_events: Annotated[
        bool,
        Option(
            "Whether agents tell at once of guests that change their power state by themselves.", group="workarounds"
        ),
    ] = True
    resume_guests_state_on_host_boot: Annotated[
        bool, Option("Whether guests that ran before their host lost power run again when its agent starts.")
    ] = False
    allow_resize_to_same_host: Annotated[
        bool, Option("Whether a resize may leave a server on the host where it is, if that has room.")
    ] = False
    report_images: Annotated[
        bool,
        Option(
            "Whether hosts tell the scheduler which images they keep, for ImageCacheWeigher (Kilonova's own).",
            group="image_cache",
        ),
    ] = False
