# SPDX-License-Identifier: Apache-2.0
"""Log lines of failing requests: bounded in size, without values of projects, and no client can forge one."""

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.logs.formatter import OneLineFormatter
from support.control import IMAGE, Control, start_control


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLineFormatter(logging.Formatter("%(levelname)s %(request)s%(message)s")))
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


def test_an_unavailable_service_is_one_line(control: Control, log: io.StringIO) -> None:
    control.process.database.close()
    assert control.ask().status == 503
    (line,) = [line for line in log.getvalue().splitlines() if "checkpoint" not in line]
    assert re.fullmatch(
        r"WARNING \[req-[0-9a-f-]{36} alice wonder\] POST /v2.1/servers: 503 The database is closed\.", line
    )


def test_an_error_of_the_database_names_no_value_and_is_bounded(control: Control, log: io.StringIO) -> None:
    with control.process.database.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE instance_tags"))
    secret = "mind-the-gap-" * 8
    answers = [
        control.member.get(f"/servers?name={secret}&tags={','.join([secret[:50]] * 50)}"),
        control.member.get(f"/servers?tags={'x' * 50}&{'sort_key=uuid&' * 30}"),
        control.ask(name=secret),
    ]
    assert {answer.status for answer in answers} & {500}
    text = log.getvalue()
    assert "no such table: instance_tags" in text
    assert "mind-the-gap" not in text
    assert len(text) < 100_000
    assert all(line.startswith(("ERROR ", " | ", "WARNING ", "INFO ")) for line in text.splitlines())


def test_a_path_cannot_write_lines_of_its_own(control: Control, log: io.StringIO) -> None:
    with control.process.database.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE keypairs RENAME TO gone"))
    assert control.member.get("/os-keypairs/a%0aERROR%20forged%1b[31m").status == 500
    assert "alice wonder] GET /v2.1/os-keypairs/a\\nERROR forged\\x1b[31m failed\n" in log.getvalue()
    assert not [line for line in log.getvalue().splitlines() if line.startswith("ERROR forged")]


def test_an_image_property_cannot_write_lines_of_its_own(tmp_path: Path, log: io.StringIO) -> None:
    scenario = (
        'images: [{name: cirros, properties: {hw_machine_type: "pc\\nERROR forged"}}]\n'
        "hosts: [{name: node1, vcpus: 8, memory_mib: 16384, failing_spawns: 99}]\n"
    )
    control = start_control(tmp_path, scenario=scenario, more="[DEFAULT]\ndebug = true\n")
    try:
        control.add_flavor()
        control.ask(name="a\u2028b", imageRef=IMAGE)
        control.settle()
    finally:
        control.process.close()
    assert not [line for line in log.getvalue().splitlines() if line.startswith("ERROR forged")]
