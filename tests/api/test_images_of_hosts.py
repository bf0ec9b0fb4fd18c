# SPDX-License-Identifier: Apache-2.0
"""Which images a host keeps: /operator/v1/hosts/{host}/images, and ``kilonova images``."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from kilonova.cli.cloud.printing import output_console
from kilonova.cli.commands.images import show_images
from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.conductor.operations.host_images import HostImages
from kilonova.errors import AgentTooOld, Unavailable, Unsupported
from kilonova.messaging.messages import AskCachedImages, QuestionRefused, RefusedBecause
from support.api_client import Client
from support.control import Control

IMAGE = "9a8b0f0e-0000-4000-8000-000000000001"


@pytest.fixture
def operator(control: Control) -> Client:
    return Client(control.process.application, api="operator")


def keep(control: Control, name: str, size: int, *, age_s: float = 0) -> None:
    folder = control.folder / "hypervisors" / "_base"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"x" * size)
    then = time.time() - age_s
    os.utime(folder / name, (then, then))


def test_a_host_says_what_it_keeps(control: Control, operator: Client) -> None:
    assert operator.get("/hosts/node1/images").body == {"host": "node1", "images": []}
    keep(control, f"{IMAGE}.{'0a' * 16}.raw", 5000, age_s=7250)
    keep(control, "ephemeral_20_ext4.raw", 100)
    keep(control, f"{IMAGE}.{'0b' * 16}x.part", 100)
    first, second = operator.get("/hosts/node1/images").body["images"]
    assert 7250 <= first.pop("unused_s") < 7300
    assert first == {
        "image": IMAGE, "name": f"{IMAGE}.{'0a' * 16}.raw", "disk_format": "raw", "size_bytes": 5000, "guests": [],
    }  # fmt: skip
    assert (second["image"], second["name"]) == (None, "ephemeral_20_ext4.raw")


def test_a_host_that_is_not_there(operator: Client) -> None:
    answer = operator.get("/hosts/nowhere/images")
    assert (answer.status, answer.fault[1]) == (404, "There is no host nowhere.")


def test_the_list_reads_well(control: Control, operator: Client, capsys: pytest.CaptureFixture[str]) -> None:
    show_images(operator.get("/hosts/node1/images").body, output_console())
    assert capsys.readouterr().out == "Host node1 caches no images.\n"
    keep(control, IMAGE, 5000, age_s=7250)
    answer = json.loads(json.dumps(operator.get("/hosts/node1/images").body))
    used = {**answer["images"][0], "guests": ["a", "b", "c", "d", "e"], "disk_format": "qcow2"}
    show_images({"host": "node1", "images": [*answer["images"], used]}, output_console())
    told = capsys.readouterr().out
    for words in (IMAGE, "as it came", "4.9 KiB", "2 h", "in use", "a, b, c and 2 more", "2 files, 9.8 KiB"):
        assert words in told


class _Bus:
    def __init__(self, answers: Callable[[AskCachedImages], Any]) -> None:
        self._answers = answers
        self.questions: AgentQuestions | None = None

    def cast(self, host: str, message: Any) -> None:
        assert self.questions is not None
        self.questions.take(self._answers(message))


@pytest.mark.parametrize(
    ("because", "error", "says"),
    [
        (RefusedBecause.UNSUPPORTED, Unsupported, "Host node1 keeps no images"),
        (RefusedBecause.FAILED, Unavailable, "Host node1 cannot list its cached images: why"),
    ],
)
def test_what_a_host_does_not_say(because: RefusedBecause, error: type[Exception], says: str) -> None:
    bus = _Bus(lambda asked: QuestionRefused(asked.question, "node1", "", asked.asker, "why", because))
    bus.questions = AgentQuestions(bus, "c", lambda _host: False)  # type: ignore[arg-type]
    with pytest.raises(error, match=says):
        HostImages(bus.questions).list("node1")


@pytest.mark.parametrize(("error", "says"), [(AgentTooOld, "older release"), (Unavailable, "cannot be reached")])
def test_an_agent_that_cannot_be_asked(error: type[Exception], says: str) -> None:
    def fail(_asked: AskCachedImages) -> None:
        raise error("?")

    bus = _Bus(fail)
    bus.questions = AgentQuestions(bus, "c", lambda _host: False)  # type: ignore[arg-type]
    with pytest.raises((Unsupported, Unavailable), match=f"host node1.*{says}"):
        HostImages(bus.questions).list("node1")
