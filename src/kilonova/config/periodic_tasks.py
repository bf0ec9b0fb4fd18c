# SPDX-License-Identifier: Apache-2.0
"""Options in [DEFAULT] for the periodic tasks of control processes."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.model.audit_periods import AuditPeriods
from kilonova.records import dataclass

_MONTHS = AuditPeriods()


@dataclass(frozen=True, slots=True)
class PeriodicTaskSettings:
    """Intervals and timeouts of periodic tasks. Units: seconds."""

    GROUP: ClassVar[str] = "DEFAULT"

    reclaim_instance_interval_s: Annotated[
        int,
        Option(
            "Seconds for which a deleted server can be restored before it is deleted for good. 0: it is deleted for "
            "good at once; a negative value: only a force delete deletes it for good.",
            name="reclaim_instance_interval",
        ),
    ] = 0
    instance_usage_audit: Annotated[
        bool,
        Option("Whether to send instance.exists for every server after each audit period in which the server existed."),
    ] = False
    usage_audit_period: Annotated[
        AuditPeriods,
        Option(
            "The audit period, in UTC: hour, day, month or year, optionally with @ and the minute, hour, day or month "
            "at which it starts, such as day@6.",
            name="instance_usage_audit_period",
            read=AuditPeriods.parse,
        ),
    ] = _MONTHS
    heal_instance_info_cache_interval_s: Annotated[
        int,
        Option(
            "Seconds after which the cached network interfaces of a server are looked up again, although the network "
            "service has sent no event. 0 or a negative value: never.",
            name="heal_instance_info_cache_interval",
        ),
    ] = -1
    reboot_timeout_s: Annotated[
        int,
        Option(
            "Timeout of a soft reboot in seconds, after which the server is rebooted hard. 0: none.",
            name="reboot_timeout",
            min=0,
        ),
    ] = 0
    shelved_offload_time_s: Annotated[
        int,
        Option(
            "Seconds after which a shelved server is offloaded from its host. 0: at once; a negative value: only on "
            "request.",
            name="shelved_offload_time",
        ),
    ] = 0
    shelved_poll_interval_s: Annotated[
        int,
        Option(
            "Interval of the task that offloads shelved servers, in seconds. 0 stands for 60; a negative value turns "
            "the task off.",
            name="shelved_poll_interval",
        ),
    ] = 3600
    instance_build_timeout_s: Annotated[
        int,
        Option(
            "Timeout of a build in seconds, after which its server is set to error. 0: none.",
            name="instance_build_timeout",
            min=0,
        ),
    ] = 0
    resize_confirm_window_s: Annotated[
        int,
        Option(
            "Seconds after which a resize or cold migration is confirmed unless a user has confirmed or reverted it. "
            "0: never.",
            name="resize_confirm_window",
            min=0,
        ),
    ] = 0
    rescue_timeout_s: Annotated[
        int,
        Option("Seconds after which a rescued server is unrescued. 0: never.", name="rescue_timeout", min=0),
    ] = 0
