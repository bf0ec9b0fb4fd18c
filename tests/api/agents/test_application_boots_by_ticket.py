# SPDX-License-Identifier: Apache-2.0
"""Builds whose host fetches the image by ticket: their results, and that no ticket or file remains."""

import logging
import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from support.control import IMAGE, Control, NewControl
from support.glance_stand_in import ImageCloud, image_cloud

DATA = os.urandom(200_000)


@pytest.fixture
def cloud() -> Iterator[ImageCloud]:
    with image_cloud({IMAGE: DATA}) as cloud:
        yield cloud


@pytest.fixture
def control(cloud: ImageCloud, new_control: NewControl) -> Control:
    control: Control = new_control(more=cloud.options)
    cloud.application = control.process.application
    return control


def kept(control: Control) -> list[bytes]:
    return [path.read_bytes() for path in (control.folder / "hypervisors" / "_base").glob("*")]


def rows(control: Control) -> dict[str, str]:
    """Everything that is stored, by table."""
    with control.process.database.read() as connection:
        return {table.name: str(connection.execute(sa.select(table)).fetchall()) for table in t.metadata.sorted_tables}


def test_hosts_of_a_process_fetch_an_image_once(cloud: ImageCloud, control: Control) -> None:
    assert [control.boot(name=f"vm{number}")["status"] for number in range(4)] == ["ACTIVE"] * 4
    assert cloud.glance.reads == [IMAGE]
    assert kept(control) == [DATA]
    control.check()


def test_an_image_that_is_deleted_on_the_way_is_no_fault_of_the_hosts(cloud: ImageCloud, control: Control) -> None:
    cloud.glance.lost.add(IMAGE)
    server = control.boot()
    assert server["status"] == "ERROR"
    assert f"Image {IMAGE} cannot be transferred. The image no longer exists." in server["fault"]["message"]
    with control.process.database.read() as connection:
        assert set(connection.execute(sa.select(t.compute_nodes.c.failed_builds)).scalars()) == {0}
    assert kept(control) == []
    cloud.glance.lost.clear()
    assert control.boot()["status"] == "ACTIVE"
    control.check()


def test_nothing_secret_stays(
    cloud: ImageCloud, control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While a boot is under way and afterwards: no ticket, token, password or user data where it does not belong."""
    caplog.set_level(logging.DEBUG)
    tickets: list[str] = []
    office, during = control.process.core.office, []
    issue = office.issue

    def noted(*words: object) -> str:
        tickets.append(issue(*words))  # type: ignore[arg-type]
        return tickets[-1]

    monkeypatch.setattr(office, "issue", noted)

    def look(environ: object, start_response: object) -> object:
        during.append(rows(control))
        return control.process.application(environ, start_response)  # type: ignore[arg-type]

    cloud.application = look
    user_data, password = "dG9wLXNlY3JldA==", "Sesam-open-7"
    assert control.boot(user_data=user_data, adminPass=password)["status"] == "ACTIVE"
    assert len(tickets) == len(during) == 1
    for told in (*during, rows(control), {"log": caplog.text}):
        for secret in (*tickets, password, "alice:wonder"):
            assert {name for name, text in told.items() if secret in text} == set()
        assert {name for name, text in told.items() if user_data in text} <= {"request_specs"}
