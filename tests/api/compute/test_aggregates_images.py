# SPDX-License-Identifier: Apache-2.0
"""POST /os-aggregates/{id}/images: the hosts of an aggregate cache images before servers need them."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.api_client import Client
from support.control import IMAGE, Control, start_control
from support.glance_stand_in import GlanceStandIn, image_cloud

DATA = os.urandom(50_000)
OTHER, LOST = "155d900f-4e14-4e4c-a73d-069cbf4541e6", "0c4c4a3a-42d5-4a6a-8a6b-16f1d7a0b7a4"
UNKNOWN = "3f0d1c5e-8a52-4a8a-9c3e-6f3b7f3e2b11"
THREE = "images: [{name: cirros}]\nhosts:\n" + "".join(f"  - {{name: node{number}}}\n" for number in (1, 2, 3))


@pytest.fixture
def started(tmp_path: Path, sqlite_template: Path) -> Iterator[tuple[Control, GlanceStandIn]]:
    (tmp_path / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    with image_cloud({IMAGE: DATA, OTHER: b"other", LOST: b"lost"}) as cloud:
        more = f"{cloud.options}[image_cache]\nprecache_concurrency = 2\n"
        control = start_control(tmp_path, scenario=THREE, more=more)
        cloud.application = control.process.application
        yield control, cloud.glance
        control.process.close()


def aggregate(control: Control, *hosts: str) -> int:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "rack"}})
    number: int = made.body["aggregate"]["id"]
    for host in hosts:
        assert control.admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": host}}).status == 200
    return number


def ask(control: Control, number: int, *image_ids: str, client: Client | None = None) -> Any:
    body = {"cache": [{"id": image_id} for image_id in image_ids]}
    answer = (client or control.admin).post(f"/os-aggregates/{number}/images", body)
    control.settle()
    return answer


def test_hosts_that_are_up_fetch_what_there_is(
    started: tuple[Control, GlanceStandIn], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    control, glance = started
    services = control.admin.get("/os-services?binary=nova-compute&host=node3").body["services"]
    assert control.admin.put(f"/os-services/{services[0]['id']}", {"forced_down": True}).status == 200
    number = aggregate(control, "node1", "node2", "node3")
    glance.lost.add(LOST)
    assert ask(control, number, IMAGE, OTHER, LOST).status == 202
    assert sorted(glance.reads) == sorted([IMAGE, OTHER])
    kept = sorted(path.read_bytes() for path in (control.folder / "hypervisors" / "_base").glob("*"))
    assert kept == sorted([DATA, b"other"])
    told = [record.getMessage() for record in caplog.records if "aggregate rack" in record.getMessage()]
    assert {line for line in told if " of 3" in line} == {
        "Images of aggregate rack: host node1 has 2 of 3",
        "Images of aggregate rack: host node2 has 2 of 3",
        "Images of aggregate rack: host node3 has 0 of 3",
    }
    assert any("node3 lacks" in line and "is down" in line for line in told)
    assert ask(control, number, IMAGE).status == 202
    assert len(glance.reads) == 2
    control.check()


def test_what_is_refused(started: tuple[Control, GlanceStandIn]) -> None:
    control, glance = started
    number = aggregate(control, "node1")
    assert ask(control, 99, IMAGE).status == 404
    assert ask(control, number, IMAGE, client=control.member).status == 403
    assert ask(control, number).status == 400
    assert ask(control, number, IMAGE, IMAGE).status == 400
    assert ask(control, number, "no-uuid").status == 400
    assert ask(control, number, IMAGE, client=Client(control.process.application, version="2.80")).status == 404
    assert glance.reads == []
    assert ask(control, number, IMAGE, client=Client(control.process.application, version="2.81")).status == 202


def test_an_image_that_hosts_could_not_fetch_is_refused_by_its_id_and_no_other_is_fetched(
    started: tuple[Control, GlanceStandIn],
) -> None:
    """As in Nova, an image that the caller cannot see is a 400; Nova accepts one without data, which no host can fetch.

    Glance hides an image of another project by the same 404 as an unknown one.
    """
    control, glance = started
    glance.images[OTHER] = None
    number = aggregate(control, "node1")
    for image_id, why in ((UNKNOWN, "could not be found."), (OTHER, "is not active.")):
        refused = ask(control, number, IMAGE, image_id)
        assert (refused.status, refused.fault) == (400, ("badRequest", f"Image {image_id} {why}"))
    assert glance.reads == []
    assert control.operator.get("/workflows").body["workflows"] == []
