# SPDX-License-Identifier: Apache-2.0
"""The filters of the embedded cloud, and who may choose others."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.up.embedded_rules import FILTERS, rule_options
from kilonova.cli.wiring.control import start_control_process
from kilonova.db.core import tables as t
from kilonova.scheduler.settings import DEFAULT_FILTERS
from support.control import SCENARIO, Control, settings_of
from support.up_filters import filters_of


def test_the_embedded_cloud_enables_what_acts_on_aggregate_metadata(cloud: Cloud) -> None:
    assert filters_of(cloud) == FILTERS
    assert FILTERS[: len(DEFAULT_FILTERS)] == DEFAULT_FILTERS


@pytest.mark.parametrize(
    ("section", "name"), [("filter_scheduler", "enabled_filters"), ("DEFAULT", "scheduler_default_filters")]
)
def test_a_scenario_that_chooses_filters_gets_these(cloud: Cloud, section: str, name: str) -> None:
    assert filters_of(cloud, {section: {name: "ComputeFilter"}}) == ("ComputeFilter",)


@pytest.fixture
def embedded(sqlite_template: Path, tmp_path: Path) -> Any:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    scenario = SCENARIO.replace("vcpus: 8, memory_mib: 16384", "vcpus: 64, memory_mib: 131072")
    options = "".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
        for section, values in rule_options().items()
    )
    started = Control(tmp_path, start_control_process(settings_of(tmp_path, scenario, options)))
    yield started
    started.process.close()


def test_an_aggregate_and_a_flavor_work_without_configuration(embedded: Control) -> None:
    admin = embedded.admin
    embedded.add_flavor("1")
    embedded.add_flavor("2")
    made = admin.post("/os-aggregates", {"aggregate": {"name": "ssd"}}).body["aggregate"]["id"]
    admin.post(f"/os-aggregates/{made}/action", {"set_metadata": {"metadata": {"ssd": "true"}}})
    admin.post(f"/os-aggregates/{made}/action", {"add_host": {"host": "node2"}})
    specs = {"aggregate_instance_extra_specs:ssd": "true"}
    admin.post("/flavors/2/os-extra_specs", {"extra_specs": specs})
    assert {embedded.boot(flavorRef="2")["OS-EXT-SRV-ATTR:host"] for _ in range(3)} == {"node2"}


def test_a_hundred_servers_of_one_request_find_room(embedded: Control) -> None:
    embedded.add_flavor("1")
    embedded.boot(max_count=100, min_count=100)
    with embedded.process.database.read() as connection:
        states = connection.execute(sa.select(t.instances.c.vm_state)).scalars().all()
    assert states == ["active"] * 100
