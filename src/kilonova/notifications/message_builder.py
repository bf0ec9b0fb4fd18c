# SPDX-License-Identifier: Apache-2.0
"""Builder of notification messages: determines event type, payload and publisher for each event.

Source: spec LIFECYCLE §8.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from kilonova.clock import utc_now
from kilonova.model.audit_periods import AuditPeriods, Period
from kilonova.model.network_info import NetworkInfo
from kilonova.model.requester import Requester
from kilonova.notifications.events import (
    AggregateActed,
    FlavorActed,
    GroupActed,
    HostFailed,
    HostFetchedImages,
    HostsSought,
    KeypairActed,
    NoHostFound,
    ResourceEvent,
    ServerActed,
    ServerChanged,
    ServerExists,
    ServiceActed,
)
from kilonova.notifications.message import Format, Message, Phase, Source
from kilonova.notifications.payloads import unversioned
from kilonova.notifications.payloads.faults import ExceptionPayload
from kilonova.notifications.payloads.payload import Payload, primitive
from kilonova.notifications.payloads.resources import (
    AggregateCachePayload,
    AggregatePayload,
    FlavorPayload,
    KeypairPayload,
    ServerGroupPayload,
    ServiceStatusPayload,
)
from kilonova.notifications.payloads.scheduling import ComputeTaskPayload, RequestSpecPayload
from kilonova.notifications.payloads.servers import (
    AuditPeriodPayload,
    InstanceActionPayload,
    InstanceActionRebuildPayload,
    InstanceActionRescuePayload,
    InstanceActionResizePrepPayload,
    InstanceActionSnapshotPayload,
    InstanceCreatePayload,
    InstanceExistsPayload,
    InstanceStateUpdatePayload,
    InstanceUpdatePayload,
    common_fields,
)
from kilonova.records import dataclass

#: Action on a server → its name in unversioned notifications if that is different; None if there is no unversioned
#: notification of the action.
OLDER_NAMES: Mapping[str, str | None] = {
    "lock": None,
    "unlock": None,
    "live_migration_pre": "live_migration.pre",
    "live_migration_post": "live_migration._post",
    "live_migration_post_dest": "live_migration.post.dest",
    "live_migration_rollback": "live_migration._rollback",
    "live_migration_rollback_dest": "live_migration.rollback.dest",
    "live_migration_abort": "live.migration.abort",
    "live_migration_force_complete": "live.migration.force.complete",
    "rebuild_scheduled": "rebuild.scheduled",
    "resize_confirm": "resize.confirm",
    "resize_finish": "finish_resize",
    "resize_prep": "resize.prep",
    "resize_revert": "resize.revert",
}
#: Action on an aggregate → its name in unversioned notifications; None if there is no unversioned notification of it.
OLDER_AGGREGATE_NAMES: Mapping[str, str | None] = {
    "create": "create",
    "delete": "delete",
    "update_prop": "updateprop",
    "update_metadata": "updatemetadata",
    "add_host": "addhost",
    "remove_host": "removehost",
    "cache_images": None,
}
#: Action on a server → name of its payload class, for actions whose payload is not InstanceActionPayload.
ACTION_PAYLOADS: Mapping[str, str] = {
    "create": InstanceCreatePayload.__name__,
    "rebuild": InstanceActionRebuildPayload.__name__,
    "rebuild_scheduled": InstanceActionRebuildPayload.__name__,
    "rescue": InstanceActionRescuePayload.__name__,
    "resize_prep": InstanceActionResizePrepPayload.__name__,
    "snapshot": InstanceActionSnapshotPayload.__name__,
}

#: Events with the payload of a server.
_OfServer = ServerActed | ServerChanged | ServerExists


@dataclass(frozen=True, slots=True)
class MessageBuilder:
    """Builds the messages of events.

    ``host``: host name of this process. ``formats``: formats of the messages to build. ``image_url``: returns the URL
    of an image id. ``interfaces_of``: returns the stored interfaces of a server, for events without them. ``bdms``:
    whether payloads of servers contain block devices. ``shares``: whether they contain shares.
    """

    host: str
    formats: frozenset[Format] = frozenset(Format)
    image_url: Callable[[str], str] = str
    interfaces_of: Callable[[str], NetworkInfo] = lambda _uuid: ()
    bdms: bool = False
    shares: bool = False
    periods: AuditPeriods = field(default_factory=AuditPeriods)
    clock: Callable[[], datetime] = utc_now

    def messages(self, resource_event: ResourceEvent, who: Requester | None) -> Iterator[Message]:
        """Yield the messages of an event. ``who``: the requester, or None if the event has none."""
        for message in self._all(resource_event, who):
            if message.format in self.formats:
                yield message

    def _all(self, resource_event: ResourceEvent, who: Requester | None) -> Iterator[Message]:
        match resource_event:
            case ServerActed():
                return self._server_acted(resource_event, who)
            case ServerChanged():
                return self._server_changed(resource_event, who)
            case ServerExists():
                return self._server_exists(resource_event, who)
            case HostsSought():
                return self._hosts_sought(resource_event, who)
            case NoHostFound():
                return self._no_host_found(resource_event, who)
            case HostFailed():
                return self._host_failed(resource_event, who)
            case AggregateActed():
                return self._aggregate_acted(resource_event, who)
            case HostFetchedImages():
                return self._host_fetched_images(resource_event, who)
            case FlavorActed(action, flavor, projects):
                payload = FlavorPayload.of(flavor, projects)
                return iter((self._versioned(who, f"flavor.{action}", payload, Source.API),))
            case KeypairActed():
                return self._keypair_acted(resource_event, who)
            case GroupActed():
                return self._group_acted(resource_event, who)
            case ServiceActed(action, service):
                payload_of = ServiceStatusPayload.of(service)
                source = Source.API if action == "delete" else Source(_source_of(service.binary))
                where = self.host if source is Source.API else service.host
                return iter((self._versioned(who, f"service.{action}", payload_of, source, host=where),))

    # --- servers ------------------------------------------------------------------------------------------------------

    def _server_acted(self, told: ServerActed, who: Requester | None) -> Iterator[Message]:
        end = "" if told.phase is None else f".{told.phase}"
        is_error = told.phase is Phase.ERROR
        event = f"instance.{told.action}{end}"
        yield self._versioned(who, event, self._action_payload(told, who), told.source, told.host, is_error=is_error)
        name = OLDER_NAMES.get(told.action, told.action)
        if told.details.forced and told.action == "delete" and told.source is Source.API:
            name = "force_delete"  # Nova uses this name if nova-api itself does the forced delete
        if name is not None:
            payload = self._server(told) | _beside(told)
            yield self._unversioned(
                who, f"compute.instance.{name}{end}", payload, "compute", told.host, is_error=is_error
            )

    def _action_payload(self, told: ServerActed, who: Requester | None) -> Payload:
        instance, details = told.instance, told.details
        fault = None if told.failure is None else ExceptionPayload.of(told.kind, told.failure)
        common = {**self._common(told, who), "fault": fault}
        match told.action:
            case "create":
                keys = [] if details.key is None else [KeypairPayload.of_server(instance.user_id, details.key)]
                return InstanceCreatePayload(
                    **common,
                    keypairs=keys,
                    tags=instance.tags,
                    trusted_image_certificates=None,
                    instance_name=instance.instance_name,
                )
            case "resize_prep":
                flavor = None if details.new_flavor is None else FlavorPayload.of(details.new_flavor)
                return InstanceActionResizePrepPayload(**common, new_flavor=flavor)
            case "rescue":
                return InstanceActionRescuePayload(**common, rescue_image_ref=details.image_id)
            case "snapshot":
                return InstanceActionSnapshotPayload(**common, snapshot_image_id=details.image_id or "")
            case "rebuild" | "rebuild_scheduled":
                return InstanceActionRebuildPayload(**common, trusted_image_certificates=None)
            case _:
                return InstanceActionPayload(**common)

    def _server_changed(self, told: ServerChanged, who: Requester | None) -> Iterator[Message]:
        instance = told.instance
        period = self.periods.present(self.clock())
        task = None if instance.task_state is None else instance.task_state.value
        old_state = None if told.old_state is None else told.old_state.value
        old_task = None if told.old_task is None else told.old_task.value
        payload = InstanceUpdatePayload(
            **self._common(told, who),
            state_update=InstanceStateUpdatePayload(
                old_state=old_state, state=instance.vm_state.value, old_task_state=old_task, new_task_state=task
            ),
            audit_period=_audit_period(period),
            old_display_name=told.old_name,
            tags=instance.tags,
        )
        yield self._versioned(who, "instance.update", payload, told.source, told.host)
        older = self._server(told) | unversioned.states(instance, old_state, old_task, period, told.old_name)
        service = told.source.removeprefix("nova-")
        yield self._unversioned(who, "compute.instance.update", older, service, told.host)

    def _server_exists(self, told: ServerExists, who: Requester | None) -> Iterator[Message]:
        host, period = told.instance.host, told.period or self.periods.present(self.clock())
        payload = InstanceExistsPayload(**self._common(told, who), audit_period=_audit_period(period))
        yield self._versioned(who, "instance.exists", payload, Source.COMPUTE, host)
        older = self._server(told) | unversioned.audit_period(period)
        yield self._unversioned(who, "compute.instance.exists", older, "compute", host)

    def _common(self, told: _OfServer, who: Requester | None) -> dict[str, Any]:
        return common_fields(told.instance, self._interfaces(told), who, bdms=self.bdms, shares=self.shares)

    def _server(self, told: _OfServer) -> dict[str, Any]:
        image_ref = told.instance.image_ref
        return unversioned.server(told.instance, self._interfaces(told), self.image_url(image_ref) if image_ref else "")

    def _interfaces(self, told: _OfServer) -> NetworkInfo:
        return self.interfaces_of(told.instance.uuid) if told.interfaces is None else told.interfaces

    # --- scheduler requests and failures ------------------------------------------------------------------------------

    def _hosts_sought(self, told: HostsSought, who: Requester | None) -> Iterator[Message]:
        event = f"scheduler.select_destinations.{told.phase}"
        yield self._versioned(who, event, RequestSpecPayload.of(told.spec), Source.SCHEDULER)
        yield self._unversioned(who, event, {"request_spec": unversioned.request(told.spec)}, "scheduler")

    def _no_host_found(self, told: NoHostFound, who: Requester | None) -> Iterator[Message]:
        state = None if told.state is None else told.state.value
        payload = ComputeTaskPayload(
            instance_uuid=told.instance_uuid,
            request_spec=None if told.spec is None else RequestSpecPayload.of(told.spec),
            state=state,
            reason=ExceptionPayload.of(told.kind, told.failure),
        )
        event = f"compute_task.{told.method}"
        yield self._versioned(who, f"{event}.error", payload, Source.CONDUCTOR, is_error=True)
        older = {
            "request_spec": {} if told.spec is None else unversioned.request(told.spec),
            "instance_properties": {} if told.spec is None else unversioned.properties(told.spec),
            "instance_id": told.instance_uuid,
            "state": state,
            "method": told.method,
            "reason": told.failure.message,
        }
        yield self._unversioned(who, event, older, "compute_task", is_error=True)

    def _host_failed(self, told: HostFailed, who: Requester | None) -> Iterator[Message]:
        reason = ExceptionPayload.of(told.kind, told.failure)
        yield self._versioned(who, "compute.exception", reason, Source.COMPUTE, told.host, is_error=True)
        older = {"exception": told.failure.message, "args": {"instance": {"uuid": told.instance_uuid}}}
        yield self._unversioned(who, reason.function_name, older, "compute", told.host, is_error=True)

    # --- other resources ----------------------------------------------------------------------------------------------

    def _aggregate_acted(self, told: AggregateActed, who: Requester | None) -> Iterator[Message]:
        aggregate, phase = told.aggregate, told.phase
        payload = AggregatePayload.of(aggregate)
        is_new = told.action == "create" and phase is Phase.START
        if is_new:
            payload = AggregatePayload(
                id=None, uuid=aggregate.uuid, name=aggregate.name, hosts=None, metadata=aggregate.metadata
            )
        yield self._versioned(who, f"aggregate.{told.action}.{phase}", payload, Source.API)
        name = OLDER_AGGREGATE_NAMES[told.action]
        if name is None:
            return
        older: dict[str, Any] = {} if is_new else {"aggregate_id": aggregate.id}
        if told.action in {"create", "update_prop"}:
            older |= {"name": aggregate.name}
        if told.action == "add_host" and phase is Phase.END:
            older |= {"name": aggregate.name}
        if told.host is not None:
            older |= {"host_name": told.host}
        if told.metadata is not None:
            older |= {"meta_data": dict(told.metadata)}
        where = aggregate.name if is_new else str(aggregate.id)
        yield self._unversioned(who, f"aggregate.{name}.{phase}", older, "aggregate", where)

    def _host_fetched_images(self, told: HostFetchedImages, who: Requester | None) -> Iterator[Message]:
        payload = AggregateCachePayload(
            id=told.aggregate.id,
            uuid=told.aggregate.uuid,
            name=told.aggregate.name,
            host=told.host,
            images_cached=told.cached,
            images_failed=told.failed,
            index=told.index,
            total=told.total,
        )
        yield self._versioned(who, "aggregate.cache_images.progress", payload, Source.CONDUCTOR)

    def _keypair_acted(self, told: KeypairActed, who: Requester | None) -> Iterator[Message]:
        keypair, event = told.keypair, f"keypair.{told.action}.{told.phase}"
        yield self._versioned(who, event, KeypairPayload.of(keypair), Source.API)
        older = {
            "tenant_id": None if who is None else who.project_id,
            "user_id": keypair.user_id,
            "key_name": keypair.name,
        }
        yield self._unversioned(who, event, older, "api")

    def _group_acted(self, told: GroupActed, who: Requester | None) -> Iterator[Message]:
        group = told.group
        payload = ServerGroupPayload.of(group)
        yield self._versioned(who, f"server_group.{told.action}", payload, Source.API)
        older: dict[str, Any] = {"server_group_id": group.uuid}
        if told.action == "create":
            older |= {"name": group.name, "policies": [group.policy], "policy": group.policy, "rules": payload.rules}
        if told.action == "add_member":
            older |= {"instance_uuids": list(told.new_members)}
        yield self._unversioned(who, f"servergroup.{told.action.replace('_', '')}", older, "servergroup")

    # --- messages -----------------------------------------------------------------------------------------------------

    def _versioned(
        self,
        who: Requester | None,
        event: str,
        payload: Payload,
        source: Source,
        host: str | None = None,
        *,
        is_error: bool = False,
    ) -> Message:
        data = primitive(payload) if Format.VERSIONED in self.formats else {}
        return Message(Format.VERSIONED, f"{source}:{host or self.host}", event, data, is_error, who)

    def _unversioned(
        self,
        who: Requester | None,
        event: str,
        payload: Mapping[str, Any],
        service: str,
        host: str | None = None,
        *,
        is_error: bool = False,
    ) -> Message:
        publisher = f"{service}.{host or self.host}"
        return Message(Format.UNVERSIONED, publisher, event, payload, is_error, who)


def _beside(told: ServerActed) -> dict[str, Any]:
    """Return the fields of an unversioned action notification that do not come from the server."""
    said: dict[str, Any] = {}
    if told.failure is not None:
        said |= unversioned.fault(told.failure)
    if (told.action, told.phase) == ("create", Phase.END):
        said |= {"message": "Success"}
    flavor = told.details.new_flavor
    if told.action == "resize_prep" and flavor is not None:
        said |= {"new_instance_type": flavor.name, "new_instance_type_id": None}
    return said


def _audit_period(period: Period) -> AuditPeriodPayload:
    return AuditPeriodPayload(audit_period_beginning=period.begin, audit_period_ending=period.end)


def _source_of(binary: str) -> str:
    return binary if binary in {*Source} else Source.API.value
