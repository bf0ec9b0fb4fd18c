# SPDX-License-Identifier: Apache-2.0
"""Start of the embedded cloud on a database older than half of its guests: these are kept and listed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until
from support.world import guests_on_disk

pytestmark = pytest.mark.cloud
_HALF = 6


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "data")
    yield made
    if hasattr(made, "process"):
        made.stop()


def listed(cloud: Supervisor) -> list[dict[str, Any]]:
    done = StockCloud(cloud).kilonova("hosts", "--strays", "--json")
    assert done.returncode == 0, done.stderr
    strays: list[dict[str, Any]] = json.loads(done.stdout)["strays"]
    return strays


def test_no_guest_is_lost_by_a_restore_of_the_database(cloud: Supervisor, tmp_path: Path) -> None:
    cloud.start().until_ready()
    session = cloud.session()
    compute = f"http://127.0.0.1:{cloud.ports[0]}/compute/v2.1"
    (image,) = cloud.images()
    flavors = session.get(f"{compute}/flavors").json()["flavors"]
    flavor = next(each["id"] for each in flavors if each["name"] == "m1.tiny")

    def boot(name: str) -> None:
        wanted = {"name": name, "imageRef": image["id"], "flavorRef": flavor, "min_count": _HALF}
        assert session.post(f"{compute}/servers", json={"server": wanted}).status_code == 202
        wait_until(lambda: active(name) == _HALF, f"{_HALF} servers {name} to be active", at_most_s=60)

    def active(name: str) -> int:
        return len(session.get(f"{compute}/servers?name={name}&status=ACTIVE").json()["servers"])

    boot("before")
    saved = StockCloud(cloud).kilonova("backup", str(tmp_path / "saved"))
    assert saved.returncode == 0, saved.stderr
    hypervisors = cloud.folder / "hypervisors"
    before = {uuid for uuids in guests_on_disk(hypervisors).values() for uuid in uuids}
    boot("after")
    there = guests_on_disk(hypervisors)
    cloud.stop()
    shutil.copy(tmp_path / "saved" / "kilonova.db", cloud.folder / "kilonova.db")

    cloud.start().until_ready()
    assert guests_on_disk(hypervisors) == there
    strays = listed(cloud)
    assert {(each["host"], each["guest"]) for each in strays} == {
        (host, uuid) for host, uuids in there.items() for uuid in uuids - before
    }
    assert {each["reason"] for each in strays} == {"unknown"}
    assert active("before") == _HALF

    gone = strays[0]
    removed = StockCloud(cloud).kilonova("hosts", "remove-guest", gone["host"], gone["guest"])
    assert (removed.returncode, removed.stderr) == (0, "")
    wait_until(lambda: gone["guest"] not in guests_on_disk(hypervisors)[gone["host"]], "the guest to be removed")
    wait_until(lambda: len(listed(cloud)) == _HALF - 1, "the guest to leave the list")
    host, kept = next((name, uuid) for name, uuids in there.items() for uuid in uuids & before)
    refused = StockCloud(cloud).kilonova("hosts", "remove-guest", host, kept)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "delete the server instead" in refused.stderr
    shown = StockCloud(cloud).kilonova("hosts", "--strays")
    assert "unknown: 5 guests" in shown.stdout
