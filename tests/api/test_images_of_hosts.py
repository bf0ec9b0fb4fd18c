# SPDX-License-Identifier: Apache-2.0
"""Which images a host keeps: /operator/v1/hosts/{host}/images, and ``kilonova images``."""

import json
import os
import time

import pytest

from kilonova.cli.cloud.printing import output_console
from kilonova.cli.commands.images import show_images
from support.api_client import Client
from support.control import Control

IMAGE = "9a8b0f0e-0000-4000-8000-000000000001"


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
