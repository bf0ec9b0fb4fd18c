# SPDX-License-Identifier: Apache-2.0
"""Notifications in the queues of a real RabbitMQ, where consumers of Nova's look for them."""

import json
from pathlib import Path
from typing import Any

import amqp

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.config.load import load_settings
from kilonova.config.notifications import conf_of_messaging
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from kilonova.model.requester import Requester
from kilonova.notifications.dispatcher import Dispatcher
from kilonova.notifications.events import ServerActed
from kilonova.notifications.message import Format, Phase
from kilonova.notifications.message_builder import MessageBuilder
from kilonova.notifications.messaging_sink import MessagingSink
from support.broker import NOTIFIER, Broker
from support.waiting import wait_until

SERVER = Instance(
    1, "178b0921-8f85-4257-88b6-2e743b5a975c", "web", "p", "u", VmState.ACTIVE, Flavor("1", "tiny", 1, 1, 1)
)


def taken(channel: Any, queue: str) -> list[dict[str, Any]]:
    """All messages of a queue, out of the envelope of oslo.messaging."""
    found = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(json.loads(json.loads(message.body)["oslo.message"]))
    return found


def test_both_formats_are_in_the_queues_of_their_topics(broker: Broker, tmp_path: Path) -> None:
    url = f"rabbit://{NOTIFIER}:{NOTIFIER}@localhost:{broker.server.port}/"
    file = tmp_path / "kilonova.conf"
    file.write_text(
        "[database]\nconnection = sqlite://\n"
        f"[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = {url}\n"
        "[notifications]\nnotification_format = both\n"
    )
    options = load_settings([str(file)]).notifications
    assert (options.drivers, options.needs_broker, options.unversioned and options.versioned) == (
        ("messagingv2",),
        True,
        True,
    )
    sink = MessagingSink(
        conf_of_messaging([str(file)]),
        drivers=options.drivers,
        topics={Format.UNVERSIONED: options.topics, Format.VERSIONED: options.versioned_notifications_topics},
        level=options.default_level,
        exchange=options.control_exchange,
        retry=options.retry,
        needs_broker=options.needs_broker,
    )
    dispatcher = Dispatcher(MessageBuilder("here"), [sink], queue_size=10)
    who = Requester("req-1", "alice", "wonder")
    failure = Failure("The disk is full.", host="node1", step="act")
    dispatcher.tell(ServerActed("reboot", Phase.END, SERVER, host="node1"), who)
    dispatcher.tell(ServerActed("reboot", Phase.ERROR, SERVER, host="node1", kind="reboot", failure=failure), who)
    wait_until(lambda: dispatcher.is_idle, "sent")
    dispatcher.close()
    with amqp.Connection(f"localhost:{broker.server.port}", userid=NOTIFIER, password=NOTIFIER) as connection:
        channel = connection.channel()
        queues = [
            f"{topic}.{level}" for topic in ("versioned_notifications", "notifications") for level in ("info", "error")
        ]
        info, error, older_info, older_error = [taken(channel, queue) for queue in queues]
    assert [each["event_type"] for each in info + error] == ["instance.reboot.end", "instance.reboot.error"]
    assert [each["event_type"] for each in older_info + older_error] == [
        "compute.instance.reboot.end",
        "compute.instance.reboot.error",
    ]
    (said,) = error
    assert (said["priority"], said["publisher_id"]) == ("ERROR", "nova-compute:node1")
    assert said["payload"]["nova_object.data"]["fault"]["nova_object.data"]["exception_message"] == "The disk is full."
    context = {name: value for name, value in said.items() if name.startswith("_context_")}
    assert context == {"_context_request_id": "req-1", "_context_user_id": "alice", "_context_project_id": "wonder"}
    assert older_error[0]["payload"]["message"] == "The disk is full."
