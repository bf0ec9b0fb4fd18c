# SPDX-License-Identifier: Apache-2.0
"""Generator of docs/notifications.md: events, publishers, payload fields and samples."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime

from kilonova.conductor.workflow_engine.workflow import Failure
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.keypair import Keypair
from kilonova.model.request_spec import RequestSpec
from kilonova.model.requester import Requester
from kilonova.notifications.events import (
    AggregateActed,
    Happening,
    HostFetchedImages,
    KeypairActed,
    NoHostFound,
    ServerActed,
    ServerChanged,
)
from kilonova.notifications.message import Format, Message, Phase
from kilonova.notifications.message_builder import ACTION_PAYLOADS, OLDER_AGGREGATE_NAMES, OLDER_NAMES, MessageBuilder
from kilonova.notifications.payloads import faults, resources, scheduling, servers
from kilonova.notifications.payloads.payload import Payload
from kilonova.notifications.workflow_rules import EXISTS, RULES, PublishedBy

_HEAD = """# Notifications

Printed by `kilonova docs notifications`.

Kilonova notifies billing, monitoring and orchestration of changes of servers and other resources, in the two formats of
Nova: *unversioned* notifications on the topic `notifications`, *versioned* notifications on the topic
`versioned_notifications`. Without a driver and without a file nothing is computed or sent.

## In the embedded cloud

```console
$ cat notifications.conf
[notifications]
file = notifications.json
notification_format = versioned
$ kilonova up --config-file notifications.conf &
$ openstack --os-cloud kilonova server create --flavor m1.tiny --image tiny --wait web
$ jq -r '[.priority, .publisher_id, .event_type] | @tsv' ~/.local/share/kilonova/log/notifications.json | tail -n 4
INFO    nova-scheduler:cloud   scheduler.select_destinations.start
INFO    nova-scheduler:cloud   scheduler.select_destinations.end
INFO    nova-compute:node1   instance.create.start
INFO    nova-compute:node1   instance.create.end
```

A relative path is below the folder of the logs. The file has a line of JSON for each notification, with the same
keys as at a broker. Only its owner can read it.

## At a broker

```ini
[oslo_messaging_notifications]
driver = messagingv2
transport_url = rabbit://nova:PASSWORD@mq:5672/   # without it: that of [DEFAULT]
[notifications]
notification_format = versioned                   # unversioned (as in Nova), versioned or both
```

oslo.messaging sends notifications to the exchange `nova` (`control_exchange`). Its own options, including those of
`[oslo_messaging_rabbit]`, have their usual names; they apply even if Kilonova's own queues do not use them. The user
at the broker needs permission to configure, write and read the topics' queues and the exchange.

| option | default | |
|---|---|---|
| `[oslo_messaging_notifications] driver` | none | a line each: `messagingv2`, `messaging`, `log`, `routing`, `noop` |
| `[oslo_messaging_notifications] transport_url` | `[DEFAULT] transport_url` | the broker |
| `[oslo_messaging_notifications] topics` | `notifications` | topics of unversioned notifications |
| `[oslo_messaging_notifications] retry` | -1 | number of retries after a failure; -1: until the broker is back |
| `[notifications] notification_format` | `unversioned` | `unversioned`, `versioned` or `both` |
| `[notifications] versioned_notifications_topics` | `versioned_notifications` | topics of versioned notifications |
| `[notifications] notify_on_state_change` | none | `vm_state` or `vm_and_task_state`: send `instance.update` |
| `[notifications] default_level` | `INFO` | priority of notifications that do not report an error |
| `[notifications] bdms_in_notifications`, `include_share_mapping` | false | include `block_devices` and `shares` |
| `[DEFAULT] control_exchange` | `nova` | the exchange at which consumers bind their queues |
| `[notifications] file` | none | Kilonova's own: write notifications to a file; 5 files of 200 MiB are kept |
| `[notifications] queue_size` | 10000 | Kilonova's own: most notifications queued while the broker is down |
| `[DEFAULT] instance_usage_audit` | false | send `instance.exists` for every server after each period |
| `[DEFAULT] instance_usage_audit_period` | `month` | `hour`, `day`, `month`, `year`, also with an offset: `day@6` |

`driver = log` writes to the log of the process, which cuts lines at 8 KiB; `file` has complete notifications.
oslo.messaging is loaded only if a driver is set; it takes about 20 MiB of memory.

## Guarantees

- A notification is sent after the commit of the change, and no request or workflow waits for a broker. The
  notifications of a server are sent in order.
- Delivery is at most once. A notification is lost if its process is killed before sending it, if the queue of
  `queue_size` is full while the broker is down, if `retry` is exhausted, and if RabbitMQ goes down before
  confirming it: then it may have arrived, and counts as lost.
  `kilonova_notifications_sent_total` and `kilonova_notifications_lost_total` count them, and losses are logged, one
  line a minute. Reconcile billing data with `instance.exists`.
- A connection to a broker that is down, even at the start, is retried every 10 s at most; then queued notifications are
  sent. A frozen broker is detected after `[oslo_messaging_rabbit] heartbeat_timeout_threshold`. A process that stops
  waits six seconds at most for either.
- A payload shows the server as it was at that moment. No notification contains a password, user data or a token; the
  public part of a key pair is included. Faults have the details that administrators see.
- Payloads contain names of hosts: give users of projects no access to them.

## Differences from Nova

- For actions that an API request completes itself, `start` and `end` are sent together at the end. A refused request
  sends nothing; Nova has sent `start` by then.
- `instance.delete` is sent in both formats, even for a server without a host (by `nova-api`). For `forceDelete` of such
  a server, the unversioned event is `compute.instance.force_delete`, as in Nova, and the versioned event is
  `instance.delete`, which Nova does not send. For a server deleted while its host is down, the publisher is the host's
  `nova-compute`; in Nova it is the API.
- A build that is retried on another host sends `create.start` and `create.error` for each host; `compute_task` and
  its `error` are sent once, when the build has failed.
- `instance.update` reports changes of states between two steps of a workflow, not changes that are reverted within a
  step.
- `instance_type_id` is null, as flavors have no numbers here; `report_count` and `version` of services are 0.
- The context has the request's id, user and project, and no token. Nova's has the token of the user.
- `compute.exception` and its unversioned form name the failed step, without its arguments.

## Not supported

Volumes (`instance.volume_attach`, `volume_detach`, `volume_swap`, `volume.usage`), interfaces
(`instance.interface_attach`, `interface_detach`, `ip_addresses`), shares (`instance.share_attach`, `share_detach`),
metrics (`metrics.update`) and libvirt connections (`libvirt.connect.error`): these features or their notifications
do not exist.
"""
_NOW = datetime(2026, 11, 22, 12, 0, 0)  # noqa: DTZ001 - times are UTC everywhere
_WHO = Requester("req-5b6c791d-5709-4f36-8fbe-c3e02869e35d", "fake-user", "fake-project")
_FLAVOR = Flavor(
    "a22d5517-147c-4147-a0d1-e698df5cd4e3", "test_flavor", 1, 512, 1, extra_specs={"hw:watchdog_action": "disabled"}
)
_IMAGE = Image("155d900f-4e14-4e4c-a73d-069cbf4541e6", "cirros", properties={"hw_disk_bus": "virtio"})
_SERVER = Instance(
    1,
    "178b0921-8f85-4257-88b6-2e743b5a975c",
    "some-server",
    "6f70656e737461636b20342065766572",
    "fake",
    VmState.ACTIVE,
    _FLAVOR,
    power_state=PowerState.RUNNING,
    hostname="some-server",
    description="some-server",
    host="node1",
    node="node1",
    image_ref=_IMAGE.id,
    image_properties={"hw_architecture": "x86_64"},
    key_name="my-key",
    availability_zone="nova",
    reservation_id="r-6w6ruqaz",
    created_at=_NOW,
    updated_at=_NOW,
    launched_at=_NOW,
)
_AGGREGATE = Aggregate(1, "788608ec-ebdc-45c5-bc7f-e5f24ab92c80", "my-aggregate", ("node1", "node2"))
_KEYPAIR = Keypair(
    1, "fake", "my-key", "ssh", "1e:2c:9b:56:79:4b:45:77:f9:ca:7a:98:2c:b0:d5:3c", "ssh-ed25519 AAAAC3NzaC1lZDI1 me"
)
#: Title of a sample → the event it shows.
_SAMPLES: Mapping[str, Happening] = {
    "The end of a reboot": ServerActed("reboot", Phase.END, _SERVER, host="node1", kind="reboot"),
    "A reboot that fails": ServerActed(
        "reboot",
        Phase.ERROR,
        replace(_SERVER, vm_state=VmState.ERROR, power_state=PowerState.SHUTDOWN),
        host="node1",
        kind="hard-reboot",
        failure=Failure("The disk is full.", "Host: node1\nThe disk is full.", "node1", step="act"),
    ),
    "A change of states": ServerChanged(
        replace(_SERVER, task_state=TaskState.REBOOTING), VmState.ACTIVE, None, host="node1"
    ),
    "A server for which there is no host": NoHostFound(
        "build_instances",
        _SERVER.uuid,
        VmState.ERROR,
        "build",
        Failure("No valid host was found.", step="claim"),
        RequestSpec(_FLAVOR, _IMAGE, "6f70656e737461636b20342065766572", "fake", instance_uuids=(_SERVER.uuid,)),
    ),
    "A host that joins an aggregate": AggregateActed("add_host", Phase.END, _AGGREGATE, host="node2"),
    "A host that has fetched images": HostFetchedImages(_AGGREGATE, "node1", (_IMAGE.id,), (), 1, 2),
    "A key pair": KeypairActed("create", Phase.END, _KEYPAIR),
}
_TELLERS: Mapping[PublishedBy, str] = {
    PublishedBy.HOST: "`nova-compute`",
    PublishedBy.SOURCE: "`nova-compute` of the source host",
    PublishedBy.API: "`nova-api`",
    PublishedBy.CONDUCTOR: "`nova-conductor`",
}
#: Rows of events that no server workflow sends: (versioned, unversioned, publisher, payload, when).
_OTHERS: tuple[tuple[str, str, str, str, str], ...] = (
    ("instance.lock, instance.unlock", "", "nova-api", "InstanceActionPayload", "a server is locked or unlocked"),
    (
        "instance.live_migration_abort.start, .end",
        "compute.instance.live.migration.abort.start, .end",
        "nova-compute",
        "InstanceActionPayload",
        "an administrator requests it",
    ),
    (
        "instance.live_migration_force_complete.start, .end",
        "compute.instance.live.migration.force.complete.start, .end",
        "nova-compute",
        "InstanceActionPayload",
        "an administrator requests it",
    ),
    (
        "instance.update",
        "compute.instance.update",
        "nova-compute, nova-api",
        "InstanceUpdatePayload",
        "states, the name, metadata or tags change, with notify_on_state_change",
    ),
    (
        "instance.exists",
        "compute.instance.exists",
        "nova-compute",
        "InstanceExistsPayload",
        "after each audit period, and before a rebuild, a move, a shelve and the end of a rescue",
    ),
    ("compute.exception", "the step", "nova-compute", "ExceptionPayload", "a host fails a step"),
    (
        "compute_task.build_instances.error, compute_task.migrate_server.error, compute_task.rebuild_server.error",
        "the same without .error",
        "nova-conductor",
        "ComputeTaskPayload",
        "no valid host is found, or a build fails",
    ),
    (
        "scheduler.select_destinations.start, .end",
        "the same",
        "nova-scheduler",
        "RequestSpecPayload",
        "the scheduler selects hosts for a build, a move or an unshelve",
    ),
    (
        "aggregate.cache_images.progress",
        "",
        "nova-conductor",
        "AggregateCachePayload",
        "a host has cached images, or has failed to",
    ),
    ("flavor.create, flavor.update, flavor.delete", "", "nova-api", "FlavorPayload", "also for extra specs and access"),
    (
        "keypair.create.start, .end; keypair.import.start, .end; keypair.delete.start, .end",
        "the same",
        "nova-api",
        "KeypairPayload",
        "",
    ),
    (
        "server_group.create, server_group.delete, server_group.add_member",
        "servergroup.create, servergroup.delete, servergroup.addmember",
        "nova-api",
        "ServerGroupPayload",
        "",
    ),
    (
        "service.create, service.update, service.delete",
        "",
        "the service; nova-api for delete",
        "ServiceStatusPayload",
        "a service is created, enabled, disabled, forced down or deleted",
    ),
)


def markdown() -> str:
    """Return the text of the page."""
    parts = (_HEAD, _server_events(), _other_events(), _payloads(), _samples())
    return "\n".join(parts)


def _server_events() -> str:
    head = (
        "## Notifications of servers\n\nListed by workflow. The unversioned event has the same name after"
        " `compute.`, unless another name is in brackets.\n\n"
        "| workflow | events, in order | payload |\n|---|---|---|\n"
    )
    return head + "".join(f"| `{kind}` | {'<br>'.join(_events(kind))} | {_payloads_of(kind)} |\n" for kind in RULES)


def _events(kind: str) -> Iterator[str]:
    for rule in RULES[kind]:
        if rule.action == EXISTS:
            continue
        phase = "" if rule.phase is None else f".{rule.phase}"
        older = OLDER_NAMES.get(rule.action)
        shown = "" if older is None else f" (`instance.{older}{phase}`)"
        yield f"`instance.{rule.action}{phase}`{shown} from {_TELLERS[rule.teller]}"


def _payloads_of(kind: str) -> str:
    names = {
        ACTION_PAYLOADS.get(rule.action, "InstanceActionPayload"): None for rule in RULES[kind] if rule.action != EXISTS
    }
    return ", ".join(f"`{name}`" for name in names)


def _other_events() -> str:
    head = "## Other notifications\n\n| versioned | unversioned | from | payload | when |\n|---|---|---|---|---|\n"
    aggregates = (
        (f"aggregate.{action}.start, .end", _of_aggregate(older), "nova-api", "AggregatePayload", "")
        for action, older in OLDER_AGGREGATE_NAMES.items()
    )
    return head + "".join(_row(row) for row in (*_OTHERS, *aggregates))


def _of_aggregate(older: str | None) -> str:
    return "" if older is None else f"aggregate.{older}.start, .end"


def _row(cells: Iterable[str]) -> str:
    events, unversioned, source, payload, when = cells
    return f"| `{events}` | {f'`{unversioned}`' if unversioned else ''} | {source} | `{payload}` | {when} |\n"


def _payloads() -> str:
    head = (
        "## Fields of versioned payloads\n\n"
        "Each is an object with `nova_object.name`, `nova_object.namespace` (`nova`), `nova_object.version` and"
        " `nova_object.data`, which has these fields.\n\n| payload | version | fields | |\n|---|---|---|---|\n"
    )
    return head + "".join(_payload_row(kind) for kind in _kinds())


def _kinds() -> Iterator[type[Payload]]:
    for module in (servers, resources, scheduling, faults):
        for kind in vars(module).values():
            is_payload = isinstance(kind, type) and issubclass(kind, Payload) and kind is not Payload
            if is_payload and kind.__module__ == module.__name__:
                yield kind


def _payload_row(kind: type[Payload]) -> str:
    (base,) = kind.__bases__
    inherited = {each.name for each in fields(base)} if base is not Payload else set()
    own = ", ".join(f"`{each.name}`" for each in fields(kind) if each.name not in inherited)
    more = f"those of `{base.__name__}`, " if inherited else ""
    said = " ".join((kind.__doc__ or "").replace("``", "`").split())
    return f"| `{kind.__name__}` | {kind.VERSION} | {more}{own} | {said} |\n"


def _samples() -> str:
    wording = MessageBuilder("control1", image_url=lambda image: f"http://glance/images/{image}", clock=lambda: _NOW)
    parts = ["## Samples\n"]
    for title, happening in _SAMPLES.items():
        parts.append(f"### {title}\n")
        parts += [_sample(message) for message in wording.messages(happening, _WHO)]
    return "\n".join(parts)


def _sample(message: Message) -> str:
    shown = {
        "priority": "ERROR" if message.is_error else "INFO",
        "publisher_id": message.publisher,
        "event_type": message.event_type,
        "payload": message.payload,
    }
    kind = "Versioned" if message.format is Format.VERSIONED else "Unversioned"
    return f"{kind}:\n\n```json\n{json.dumps(shown, indent=2)}\n```\n"
