# SPDX-License-Identifier: Apache-2.0
"""What [DEFAULT] says of hosts, their zones and their services."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class ComputeSettings:
    """Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "DEFAULT"

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
    allow_resize_to_same_host: Annotated[
        bool, Option("Whether a resize may leave a server on the host where it is, if that has room.")
    ] = False
