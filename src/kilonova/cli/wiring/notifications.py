# SPDX-License-Identifier: Apache-2.0
"""Builds the publisher of notifications from the settings. If no destination is set, it publishes nothing."""

import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

from kilonova.claims.observers import ClaimObservers
from kilonova.conductor.workflow_engine.events import Observer
from kilonova.conductor.workflow_engine.listeners import Listeners
from kilonova.config.notifications import VM_AND_TASK_STATE, NotificationSettings, conf_of_messaging
from kilonova.config.settings import Settings
from kilonova.db import instance_networks
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError
from kilonova.metrics import Metrics
from kilonova.model.network_info import NetworkInfo
from kilonova.notifications.dispatcher import Counters, Dispatcher
from kilonova.notifications.message import Format
from kilonova.notifications.message_builder import MessageBuilder
from kilonova.notifications.messaging_sink import MessagingSink
from kilonova.notifications.publisher import CachingProgress, Publisher
from kilonova.notifications.sinks import FileSink, Sink
from kilonova.notifications.usage_audit import UsageAudit
from kilonova.notifications.workflow_watch import Changes, WorkflowWatch
from kilonova.records import dataclass

#: Group of the entry points of notification drivers, of oslo.messaging and of other packages.
_DRIVERS = "oslo.messaging.notify.drivers"


@dataclass(frozen=True, slots=True)
class Notifying:
    """The publisher of a control process, and the observers that send it events.

    All are inactive if no destination is set.
    ``audit``: the periodic task that sends instance.exists; None if it is switched off. The caller starts it when the
    process is complete.
    """

    announcer: Publisher = field(default_factory=Publisher)
    dispatcher: Dispatcher | None = None
    observers: tuple[Observer, ...] = ()
    listeners: Listeners = field(default_factory=Listeners)
    audit: UsageAudit | None = None

    def claim_observers(self, metrics: Metrics) -> ClaimObservers:
        """Return the observers of scheduling decisions."""
        counted = ClaimObservers(metrics.decided, metrics.claim_lost, removed=metrics.hosts_removed)
        if self.dispatcher is None:
            return counted
        return replace(counted, sought=self.announcer.sought, found=self.announcer.found)

    def close(self) -> None:
        """Send queued notifications and stop."""
        if self.dispatcher is not None:
            self.dispatcher.close()


def start_notifications(
    settings: Settings,
    database: Database,
    metrics: Metrics,
    may_act: Callable[[], bool],
    sinks: Sequence[Sink] | None = None,
) -> Notifying:
    """Build the publisher of notifications, and start its thread.

    ``may_act``: returns whether this process holds its lease. ``sinks``: replace the configured destinations.
    Raises: ConfigurationError.
    """
    options = settings.notifications
    if sinks is None:
        sinks = _sinks(settings)
    if not sinks:
        return Notifying()
    formats = {Format.UNVERSIONED} if options.unversioned else set()
    formats |= {Format.VERSIONED} if options.versioned else set()
    builder = MessageBuilder(
        os.uname().nodename,
        frozenset(formats),
        _image_url(settings.glance.endpoint_override),
        partial(_interfaces_of, database),
        bdms=options.bdms_in_notifications,
        shares=options.include_share_mapping,
        periods=settings.periodic_tasks.usage_audit_period,
    )
    counters = Counters(metrics.notification_sent, metrics.notification_lost)
    dispatcher = Dispatcher(builder, sinks, queue_size=options.queue_size, counters=counters)
    announcer = Publisher(dispatcher, updates=options.notify_on_state_change is not None)
    watch = WorkflowWatch(database, dispatcher, _changes(options))
    listeners = Listeners(CachingProgress(announcer, database).fetched, announcer.new_services, announcer.not_built)
    tasks = settings.periodic_tasks
    audit = UsageAudit(database, announcer, tasks.usage_audit_period, may_act) if tasks.instance_usage_audit else None
    return Notifying(announcer, dispatcher, (watch.observe,), listeners, audit)


def _changes(options: NotificationSettings) -> Changes | None:
    if options.notify_on_state_change is None:
        return None
    return Changes(tasks=options.notify_on_state_change == VM_AND_TASK_STATE)


def _interfaces_of(database: Database, instance_uuid: str) -> NetworkInfo:
    with database.read() as connection:
        return instance_networks.info_of(connection, instance_uuid)


def _image_url(endpoint: str | None) -> Callable[[str], str]:
    return str if not endpoint else lambda image_id: f"{endpoint.rstrip('/')}/images/{image_id}"


def _sinks(settings: Settings) -> tuple[Sink, ...]:
    options = settings.notifications
    sinks: list[Sink] = []
    if options.file is not None:
        folder = Path() if settings.log.file is None else settings.log.file.path.parent
        try:
            sinks.append(FileSink(folder / options.file, options.default_level))
        except OSError as error:
            raise ConfigurationError(f"[notifications] file {options.file} cannot be written: {error}") from error
    if options.drivers:
        sinks.append(_messaging(options, settings.conf.default_config_files))
    return tuple(sinks)


def _messaging(options: NotificationSettings, files: Sequence[str]) -> Sink:
    known = {each.name for each in entry_points(group=_DRIVERS)}
    for driver in options.drivers:
        if driver not in known:
            said = f"{driver!r}; it must be one of {', '.join(sorted(known))}"
            raise ConfigurationError(f"[oslo_messaging_notifications] driver is {said}")
    try:
        return MessagingSink(
            conf_of_messaging(files),
            drivers=options.drivers,
            topics={Format.UNVERSIONED: options.topics, Format.VERSIONED: options.versioned_notifications_topics},
            level=options.default_level,
            exchange=options.control_exchange,
            retry=options.retry,
            needs_broker=options.needs_broker,
        )
    except Exception as error:  # any error of oslo.messaging here is due to the configured options
        raise ConfigurationError(f"[oslo_messaging_notifications] is invalid: {error}") from error
