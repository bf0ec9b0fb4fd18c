# SPDX-License-Identifier: Apache-2.0
"""What oslo.messaging is given, and what it does where nobody listens."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.notifications import start_notifications
from kilonova.config.load import load_settings
from kilonova.config.notifications import conf_of_messaging
from kilonova.errors import ConfigurationError
from kilonova.metrics import Metrics
from kilonova.notifications.message import Format, Message
from kilonova.notifications.messaging_sink import MessagingSink
from kilonova.notifications.sinks import UnsentError

MESSAGE = Message(Format.VERSIONED, "nova-compute:node1", "instance.reboot.end", {"a": 1})
#: Nothing listens there.
NOWHERE = "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabbit://a:b@localhost:1/\n"


def sink(folder: Path, text: str, **options: Any) -> MessagingSink:
    file = folder / "kilonova.conf"
    file.write_text(text)
    topics = {Format.VERSIONED: ["v"]}
    usual = {
        "drivers": ["messagingv2"],
        "topics": topics,
        "level": "INFO",
        "exchange": "nova",
        "retry": -1,
        "needs_broker": True,
    }
    return MessagingSink(conf_of_messaging([str(file)]), **{**usual, **options})


def test_a_message_without_a_broker_is_given_up_when_it_was_tried_often_enough(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = sink(tmp_path, NOWHERE, retry=0)
    with pytest.raises(UnsentError, match="refused"):
        made.send(MESSAGE)
    assert "Traceback" not in caplog.text
    assert threading.Thread.__module__ == "threading"
    made.close()


def test_a_message_waits_for_its_broker_until_the_process_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kilonova")
    made = sink(tmp_path, NOWHERE)
    ended: list[BaseException] = []

    def send() -> None:
        try:
            made.send(MESSAGE)
        except UnsentError as error:
            ended.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.5)
    assert thread.is_alive()
    made.hurry()
    thread.join(10)
    assert len(ended) == 1
    said = [record.getMessage() for record in caplog.records if record.name.startswith("kilonova")]
    assert len(said) == 1
    assert said[0].startswith("Notifications wait for the broker: ")


def test_the_log_has_what_its_driver_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    made = sink(tmp_path, "[oslo_messaging_notifications]\ndriver = log\n", drivers=["log"], needs_broker=False)
    made.send(MESSAGE)
    made.close()
    (record,) = [each for each in caplog.records if each.name == "oslo.messaging.notification.instance.reboot.end"]
    assert json.loads(record.getMessage())["publisher_id"] == "nova-compute:node1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[oslo_messaging_notifications]\ndriver = pigeon\n",
            "driver is 'pigeon'; it must be one of log, messaging",
        ),
        ("[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = carrier://x\n", "is invalid"),
        ("[notifications]\nfile = /nowhere/at/all.json\n", "cannot be written"),
    ],
)
def test_what_cannot_work_is_named_at_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "kilonova.conf"
    file.write_text(f"[database]\nconnection = sqlite://\n{text}")
    settings = load_settings([str(file)])
    with pytest.raises(ConfigurationError, match=complaint):
        start_notifications(settings, None, Metrics(), lambda: True)  # type: ignore[arg-type]


def test_without_a_driver_nothing_is_started(tmp_path: Path) -> None:
    for text in ("", "[oslo_messaging_notifications]\ndriver = noop\n"):
        file = tmp_path / "kilonova.conf"
        file.write_text(f"[database]\nconnection = sqlite://\n{text}")
        made = start_notifications(load_settings([str(file)]), None, Metrics(), lambda: True)  # type: ignore[arg-type]
        assert (made.dispatcher, made.observers, made.announcer.is_on) == (None, (), False)
