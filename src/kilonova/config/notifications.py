# SPDX-License-Identifier: Apache-2.0
"""[notifications] and [oslo_messaging_notifications]: what other services are told, and where it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from oslo_config import cfg

from kilonova.config.option import Option

_OSLO = "oslo_messaging_notifications"
_NOOP = "noop"
_TO_LOG = frozenset({"log", _NOOP})
UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"
VM_STATE, VM_AND_TASK_STATE = "vm_state", "vm_and_task_state"


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """``file``: gets them beside, or instead of, what the drivers of oslo.messaging do with them."""

    GROUP: ClassVar[str] = "notifications"

    driver: Annotated[
        tuple[str, ...],
        Option(
            "What sends notifications, on a line each: messagingv2 or messaging to the queues of a broker, log to the "
            "log, noop nowhere, or any other driver of oslo.messaging. Without one, and without [notifications] file, "
            "there are none.",
            group=_OSLO,
            repeats=True,
            former=(("DEFAULT", "notification_driver"),),
        ),
    ] = ()
    transport_url: Annotated[
        str | None,
        Option(
            "The broker for notifications. Without it: the one of [DEFAULT] transport_url.",
            group=_OSLO,
            secret=True,
            former=(("DEFAULT", "notification_transport_url"),),
        ),
    ] = None
    topics: Annotated[
        tuple[str, ...],
        Option(
            "Topics of unversioned notifications.",
            group=_OSLO,
            former=(("rpc_notifier2", "topics"), ("DEFAULT", "notification_topics")),
        ),
    ] = ("notifications",)
    control_exchange: Annotated[
        str, Option("Exchange at which consumers of notifications bind their queues.", group="DEFAULT")
    ] = "nova"
    retry: Annotated[
        int,
        Option(
            "How often a notification that could not be sent is tried again before it is lost. -1: until it can. "
            "Meanwhile others wait, up to [notifications] queue_size of them.",
            group=_OSLO,
            min=-1,
        ),
    ] = -1
    file: Annotated[
        Path | None,
        Option(
            "File to which each notification is written as a line of JSON, beside what the drivers do; below the "
            "folder of log_file unless it is absolute. It is rotated at 200 MiB, and 5 files are kept. Not an "
            "option of Nova's."
        ),
    ] = None
    queue_size: Annotated[
        int,
        Option(
            "How many notifications wait at most for a broker that is away or slow. Those beyond that are lost, and "
            "counted. Not an option of Nova's.",
            min=1,
        ),
    ] = 10_000
    notification_format: Annotated[
        str,
        Option(
            "Which of the two formats consumers get.",
            choices=(UNVERSIONED, VERSIONED, BOTH),
            former=(("DEFAULT", "notification_format"),),
        ),
    ] = UNVERSIONED
    versioned_notifications_topics: Annotated[tuple[str, ...], Option("Topics of versioned notifications.")] = (
        "versioned_notifications",
    )
    notify_on_state_change: Annotated[
        str | None,
        Option(
            "Whether instance.update is sent: vm_state when a server changes its settled state, vm_and_task_state also "
            "when it changes its task. Then it is sent of changed names, metadata and tags, too.",
            choices=(VM_STATE, VM_AND_TASK_STATE),
            former=(("DEFAULT", "notify_on_state_change"),),
        ),
    ] = None
    default_level: Annotated[
        str,
        Option(
            "Priority of notifications that tell of no error.",
            choices=("DEBUG", "INFO", "WARN", "ERROR", "CRITICAL"),
            former=(("DEFAULT", "default_notification_level"),),
        ),
    ] = "INFO"
    bdms_in_notifications: Annotated[
        bool,
        Option("Whether versioned notifications of servers have block_devices, which are none as yet."),
    ] = False
    include_share_mapping: Annotated[
        bool, Option("Whether versioned notifications of servers have shares, which are none as yet.")
    ] = False

    @property
    def drivers(self) -> tuple[str, ...]:
        """Those that send something."""
        return tuple(driver for driver in map(str.strip, self.driver) if driver not in {"", _NOOP})

    @property
    def is_on(self) -> bool:
        """Whether anybody is told anything."""
        return bool(self.drivers) or self.file is not None

    @property
    def needs_broker(self) -> bool:
        return bool({*self.drivers} - _TO_LOG)

    @property
    def unversioned(self) -> bool:
        return self.notification_format != VERSIONED

    @property
    def versioned(self) -> bool:
        return self.notification_format != UNVERSIONED


def conf_of_messaging(files: Sequence[str]) -> Any:
    """Return the same files for oslo.messaging, which has other defaults for some options that we read as well."""
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
    return conf
