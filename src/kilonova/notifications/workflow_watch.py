# SPDX-License-Identifier: Apache-2.0
"""Observer that converts workflow events to notification events. It reads the server once per workflow event."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy.engine import Connection

from kilonova.conductor.workflow_engine.events import Phase as WorkflowPhase
from kilonova.conductor.workflow_engine.events import WorkflowEvent
from kilonova.conductor.workflow_engine.run import Failure
from kilonova.db import instance_actions, instance_networks, instances, request_specs, server_migrations
from kilonova.db.database import Database
from kilonova.errors import NotFound
from kilonova.model.instance import Instance, TaskState
from kilonova.model.network_info import NetworkInfo
from kilonova.notifications.dispatcher import Dispatcher
from kilonova.notifications.events import (
    Details,
    HostFailed,
    NoHostFound,
    ResourceEvent,
    ServerActed,
    ServerChanged,
    ServerExists,
)
from kilonova.notifications.message import Phase, Source
from kilonova.notifications.workflow_rules import EXISTS, PLACED, PublishedBy, Rule, rules_for
from kilonova.records import dataclass

#: Maximum number of servers whose last known state is cached.
_REMEMBERED = 10_000
_FAILS = frozenset({WorkflowPhase.STEP_FAILED, WorkflowPhase.FAILED})
#: Events that change no server.
_UNCHANGED = frozenset({WorkflowPhase.BROKE, WorkflowPhase.AWAITS_HOST})
#: Kinds of workflow whose notifications name an image.
_SNAPSHOTS = frozenset({"create-image", "create-backup"})


@dataclass(frozen=True, slots=True)
class Changes:
    """State changes to publish: all changes of vm_state and, if ``tasks`` is True, changes of task_state alone."""

    tasks: bool = False


class Memory:
    """Bounded cache of the last known state of servers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Instance] = OrderedDict()

    def exchange(self, instance: Instance) -> Instance | None:
        """Store a server's current state. Return the state stored before, or None if the server is not cached."""
        with self._lock:
            before = self._known.pop(instance.uuid, None)
            if instance.deleted_at is None or instance.host is not None:
                self._known[instance.uuid] = instance
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            return before


class WorkflowWatch:
    """Observer of all workflow events that publishes notifications by ``dispatcher``.

    ``changes``: state changes to publish, or None to publish no state changes.
    """

    def __init__(self, database: Database, dispatcher: Dispatcher, changes: Changes | None = None) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._changes = changes
        self._memory = Memory()

    def observe(self, event: WorkflowEvent) -> None:
        """Publish the notifications of a workflow event, if the event has any. Never raises."""
        if not event.instance_uuid:
            return
        rules = rules_for(event)
        if not (rules or event.phase in _FAILS or (self._changes is not None and event.phase not in _UNCHANGED)):
            return
        try:
            with self._database.read() as connection:
                who = instance_actions.requester(connection, event.instance_uuid, event.request_id)
                told = list(self._told(connection, event, rules))
        except Exception as error:  # noqa: BLE001 - the workflow must continue after any error of its notifications
            self._dispatcher.lose("unread", f"server {event.instance_uuid} cannot be read: {error}")
            return
        for resource_event in told:
            self._dispatcher.tell(resource_event, who)

    def _told(self, connection: Connection, event: WorkflowEvent, rules: list[Rule]) -> Iterator[ResourceEvent]:
        instance = instances.find_any(connection, event.instance_uuid)
        if instance is None:
            return
        interfaces = instance_networks.info_of(connection, instance.uuid)
        before = self._memory.exchange(instance)
        yield from self._change(event, before, instance, interfaces)
        details = _details(connection, event, instance, rules)
        for rule in rules:
            shown = _as_told(rule, before, instance)
            if rule.action == EXISTS:
                yield ServerExists(shown, interfaces=interfaces)
            else:
                yield replace(_acted(rule, event, shown, details), interfaces=interfaces)
        yield from _failures(connection, event, instance)

    def _change(
        self, event: WorkflowEvent, before: Instance | None, now: Instance, interfaces: NetworkInfo
    ) -> Iterator[ResourceEvent]:
        """Yield the change of a server's states since its last event.

        If no previous state is cached, and the event is the start of a step, the server is assumed to have had no task
        state before, or the task state SCHEDULING before a build.
        """
        if self._changes is None:
            return
        if before is None:
            if event.phase is not WorkflowPhase.STEP_BEGINS:
                return
            task = TaskState.SCHEDULING if event.kind == "build" else None
            before = replace(now, task_state=task)
        if before.vm_state is not now.vm_state or (self._changes.tasks and before.task_state is not now.task_state):
            states = before.vm_state, before.task_state
            yield ServerChanged(now, *states, host=now.host or before.host, interfaces=interfaces)


def _as_told(rule: Rule, before: Instance | None, now: Instance) -> Instance:
    """Return a server as the notification shows it: a deleted server is shown with its last host.

    The notification ``shutdown`` shows a deleted server as it was before the delete, because the guest is shut down
    first.
    """
    if before is None or now.deleted_at is None or now.host is not None:
        return now
    if rule.action == "shutdown":
        return before
    return replace(now, host=before.host, node=before.node)


def _acted(rule: Rule, event: WorkflowEvent, instance: Instance, details: Details) -> ServerActed:
    source, host = Source.COMPUTE, _host(rule, event, instance)
    if rule.published_by is PublishedBy.CONDUCTOR:
        source = Source.CONDUCTOR
    elif rule.published_by is PublishedBy.API or host is None:
        source, host = Source.API, None
    failure = event.failure if rule.phase is Phase.ERROR else None
    return ServerActed(rule.action, rule.phase, instance, source, host, event.kind, failure, details)


def _host(rule: Rule, event: WorkflowEvent, instance: Instance) -> str | None:
    if rule.published_by is PublishedBy.SOURCE:
        return str(event.facts.source)
    if rule.published_by is PublishedBy.HOST:
        known = getattr(event.facts, "host", None) or event.host or instance.host
        return None if known is None else str(known)
    return None


def _details(connection: Connection, event: WorkflowEvent, instance: Instance, rules: list[Rule]) -> Details:
    """Return the data, besides the server, that the notifications of ``rules`` need."""
    actions = {rule.action for rule in rules}
    if "create" in actions and instance.key_name is not None:
        request = request_specs.get_many(connection, [instance]).get(instance.uuid)
        return Details(key=None if request is None else request.key)
    if "resize_prep" in actions:
        try:
            return Details(new_flavor=server_migrations.get(connection, event.facts.migration).new_flavor)
        except NotFound:
            return Details()
    if event.kind == "delete":
        return Details(forced=event.facts.forced)
    if event.kind in _SNAPSHOTS:
        return Details(image_id=event.facts.image_id)
    return Details(image_id=event.facts.image.id) if "rescue" in actions else Details()


def _failures(connection: Connection, event: WorkflowEvent, instance: Instance) -> Iterator[ResourceEvent]:
    """Yield the events for a failed host and for failed scheduling. Other rules publish the error of the action."""
    failure = event.failure
    if failure is None:
        return
    if event.phase is WorkflowPhase.STEP_FAILED and not event.is_interrupted and _is_of_host(failure):
        yield HostFailed(failure.host or "", instance.uuid, event.kind, failure)
    method = PLACED.get(event.kind)
    if (
        event.phase is WorkflowPhase.FAILED
        and method is not None
        and (event.kind == "build" or failure.step == "claim")
    ):
        request = request_specs.get_many(connection, [instance]).get(instance.uuid)
        spec = None if request is None else replace(request.spec, instance_uuids=(instance.uuid,))
        yield NoHostFound(method, instance.uuid, instance.vm_state, event.kind, failure, spec)


def _is_of_host(failure: Failure) -> bool:
    return bool(failure.host) and not failure.unreachable
