# SPDX-License-Identifier: Apache-2.0
"""[notifications] and [oslo_messaging_notifications]: format, content and destinations of notifications."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from oslo_config import cfg

from kilonova.config.option import Option
from kilonova.records import dataclass

_OSLO = "oslo_messaging_notifications"
_NOOP = "noop"
_TO_LOG = frozenset({"log", _NOOP})
UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"
VM_STATE, VM_AND_TASK_STATE = "vm_state", "vm_and_task_state"


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Options of notifications. ``file``: gets all notifications, whether or not a driver is set."""

    GROUP: ClassVar[str] = "notifications"

    driver: Annotated[
        tuple[str, ...],
        Option(
            "Drivers that send notifications, one per line: messagingv2 or messaging for a broker's queues, log for "
            "the log, noop for none, or any other driver of oslo.messaging. Without a driver and without "
            "[notifications] file, no notifications are sent.",
            group=_OSLO,
            repeats=True,
            former=(("DEFAULT", "notification_driver"),),
        ),
    ] = ()
    transport_url: Annotated[
        str | None,
        Option(
            "URL of the broker for notifications. Unset: [DEFAULT] transport_url.",
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
            "Number of retries of a failed notification before it is dropped. -1: no limit. "
            "Meanwhile other notifications wait, at most [notifications] queue_size.",
            group=_OSLO,
            min=-1,
        ),
    ] = -1
    file: Annotated[
        Path | None,
        Option(
            "File to which each notification is written as a line of JSON, in addition to the drivers; relative to the "
            "folder of log_file unless it is absolute. It is rotated at 200 MiB, and 5 files are kept. Not an "
            "option of Nova's."
        ),
    ] = None
    queue_size: Annotated[
        int,
        Option(
            "Most notifications queued for an unavailable or slow broker. Further notifications are dropped and "
            "counted. Not an option of Nova's.",
            min=1,
        ),
    ] = 10_000
    notification_format: Annotated[
        str,
        Option(
            "Format of notifications.",
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
            "When instance.update is sent: vm_state: when a server's vm_state changes; vm_and_task_state: also "
            "when its task_state changes. If set, changes of name, metadata and tags are sent, too.",
            choices=(VM_STATE, VM_AND_TASK_STATE),
            former=(("DEFAULT", "notify_on_state_change"),),
        ),
    ] = None
    default_level: Annotated[
        str,
        Option(
            "Priority of notifications that do not report an error.",
            choices=("DEBUG", "INFO", "WARN", "ERROR", "CRITICAL"),
            former=(("DEFAULT", "default_notification_level"),),
        ),
    ] = "INFO"
    bdms_in_notifications: Annotated[
        bool,
        Option("Whether versioned notifications of servers have block_devices; the list is empty without volumes."),
    ] = False
    include_share_mapping: Annotated[
        bool, Option("Whether versioned notifications of servers have shares; the list is always empty.")
    ] = False

    @property
    def drivers(self) -> tuple[str, ...]:
        """The configured drivers, except noop."""
        return tuple(driver for driver in map(str.strip, self.driver) if driver not in {"", _NOOP})

    @property
    def is_on(self) -> bool:
        """Whether notifications have any destination."""
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
    """Return an oslo.config object that only oslo.messaging uses.

    A separate object is needed, because oslo.messaging and Kilonova declare some options with different defaults.
    """
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
    return conf
