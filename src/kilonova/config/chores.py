# SPDX-License-Identifier: Apache-2.0
"""What [DEFAULT] says of the work that control processes do from time to time."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.model.audit_periods import AuditPeriods

_MONTHS = AuditPeriods()


@dataclass(frozen=True, slots=True)
class ChoreSettings:
    """Units: seconds."""

    GROUP: ClassVar[str] = "DEFAULT"

    reclaim_instance_interval_s: Annotated[
        int,
        Option(
            "Seconds for which a deleted server can be restored before it is deleted for good. 0: it is deleted at "
            "once; a negative value: it is never deleted for good unless somebody asks for that.",
            name="reclaim_instance_interval",
        ),
    ] = 0
    instance_usage_audit: Annotated[
        bool,
        Option("Whether instance.exists tells of every server after each period in which it was there."),
    ] = False
    usage_audit_period: Annotated[
        AuditPeriods,
        Option(
            "Those periods: hour, day, month or year, maybe with @ and the minute, hour, day or month from which they "
            "count, as in day@6. UTC.",
            name="instance_usage_audit_period",
            read=AuditPeriods.parse,
        ),
    ] = _MONTHS
    reboot_timeout_s: Annotated[
        int,
        Option(
            "Seconds after which a soft reboot that has not ended becomes a hard one. 0: it never does.",
            name="reboot_timeout",
            min=0,
        ),
    ] = 0
    shelved_offload_time_s: Annotated[
        int,
        Option(
            "Seconds after which a shelved server leaves its host. 0: at once; a negative value: only when somebody "
            "asks for that.",
            name="shelved_offload_time",
        ),
    ] = 0
    shelved_poll_interval_s: Annotated[
        int,
        Option(
            "Seconds between two looks for shelved servers that have to leave their hosts. 0 stands for 60; a negative "
            "value: nobody looks.",
            name="shelved_poll_interval",
        ),
    ] = 3600
    instance_build_timeout_s: Annotated[
        int,
        Option(
            "Seconds that a build may take before it is given up, and its server is in error. 0: any time.",
            name="instance_build_timeout",
            min=0,
        ),
    ] = 0
    resize_confirm_window_s: Annotated[
        int,
        Option(
            "Seconds after which a resize or a cold migration that nobody has confirmed or reverted is confirmed. "
            "0: never.",
            name="resize_confirm_window",
            min=0,
        ),
    ] = 0
    rescue_timeout_s: Annotated[
        int,
        Option("Seconds after which a rescued server is unrescued. 0: never.", name="rescue_timeout", min=0),
    ] = 0
