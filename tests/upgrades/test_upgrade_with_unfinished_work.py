# SPDX-License-Identifier: Apache-2.0
"""The current release completes the unfinished work in databases of earlier releases whose processes were killed."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.compute.virt.fake.guests import GuestFile, Place
from kilonova.db import schema
from kilonova.model.instance import PowerState, VmState
from support.database_servers import DatabaseServer
from support.samples import IS_WHOLE
from support.waiting import wait_until_idle
from support.world import check_world, guests_on_disk, power_states_on_disk
from upgrades.cloud_of_agents import ARCHIVED, OfAgents
from upgrades.upgrade_clouds import FIXTURES, Cloud, DataFolder, OnPostgreSQL, opened, program
from upgrades.upgrade_facts import facts, get

_STATUS = {"ACTIVE": VmState.ACTIVE, "SHUTOFF": VmState.STOPPED, "VERIFY_RESIZE": VmState.RESIZED}
_POWER = {"build", "delete", "start", "stop", "reboot", "hard-reboot"}
#: Kinds of unfinished workflows by schema revision.
_MOVES = {"resize", "migrate", "live-migrate", "revert-resize"}
_LEFT = {"0007": _POWER, "0009": _POWER | _MOVES, "0014": _POWER | _MOVES}
#: Combinations of release and kind of cloud for the sample; KILONOVA_WHOLE=1 tests all of them.
_SAMPLE = (
    ("0007", DataFolder.name),
    ("0009", OnPostgreSQL.name),
    ("0014", DataFolder.name),
    ("0014", OnPostgreSQL.name),
    ("0014", OfAgents.name),
)
_WHOLE = (
    *((revision, name) for revision in _LEFT for name in (DataFolder.name, OnPostgreSQL.name)),
    ("0009", OfAgents.name),
    ("0014", OfAgents.name),
)


@pytest.fixture(params=_WHOLE if IS_WHOLE else _SAMPLE)
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    """Cloud left by the earlier release, with the current release started on it."""
    revision, name = request.param
    fixture = FIXTURES / f"schema-{revision}"
    scenario = fixture / "scenario.yaml"
    # The archive of schema 0009 has agents inside control processes; they become agent processes.
    archive = OnPostgreSQL.name if (revision, name) == ("0009", OfAgents.name) else name
    _unpack(fixture / f"{archive}.tar.xz", tmp_path)
    shutil.copytree(tmp_path / "data" / "hypervisors", tmp_path / "before" / "hypervisors")
    if name == DataFolder.name:
        other = tmp_path / "other"  # opening the file would checkpoint the WAL left by the kill, so a copy is checked
        _unpack(fixture / f"{name}.tar.xz", other)
        _require_untouched(DataFolder(other, scenario), revision)
        found: Cloud = DataFolder(tmp_path, scenario)
        found.start()
        yield found
        found.stop()
        return
    server: DatabaseServer = request.getfixturevalue("database_servers")["postgresql"]
    server.create("upgraded")
    psql = [program("psql"), "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f", tmp_path / "data" / "dump.sql"]
    address = server.url("upgraded").replace("+psycopg", "")
    subprocess.run([*psql, address], check=True, capture_output=True, timeout=60)
    if name == OfAgents.name:
        names = ARCHIVED if archive == OfAgents.name else None
        found = OfAgents(tmp_path, scenario, server.url("upgraded"), request.getfixturevalue("broker"), names)
    else:
        found = OnPostgreSQL(tmp_path, scenario, server.url("upgraded"))
    _require_untouched(found, revision)
    found.start()
    yield found
    found.stop()
    server.drop("upgraded")


def _unpack(path: Path, folder: Path) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(folder / "data", filter="data")


def _require_untouched(cloud: Cloud, revision: str) -> None:
    """Assert that the database still has the old schema and that its journal holds the unfinished workflows."""
    unfinished = json.loads((cloud.folder / "facts.json").read_text(encoding="utf-8"))["unfinished"]
    with opened(cloud) as database, database.read() as connection:
        assert schema.current(database) == revision
        rows = connection.execute(sa.text("SELECT kind, instance_uuid FROM workflows WHERE kind <> 'batch'"))
        journal = {row.instance_uuid: row.kind for row in rows}
    assert journal == {uuid: told["left_at"].split()[0] for uuid, told in unfinished.items()}
    assert set(journal.values()) == _LEFT[revision]


def test_a_killed_cloud_of_an_earlier_release_goes_on(cloud: Cloud) -> None:
    before = json.loads((cloud.folder / "facts.json").read_text(encoding="utf-8"))
    _require_everything_there_and_ended(cloud, before)
    _require_a_cloud_like_any_other(cloud, before)


def _require_everything_there_and_ended(cloud: Cloud, before: dict[str, Any]) -> None:
    unfinished = before["unfinished"]
    with opened(cloud) as database:
        assert schema.current(database) == schema.head()
        wait_until_idle(database)
        with database.read() as connection:
            states = check_world(connection, guests_on_disk(cloud.folder / "hypervisors"))

    assert get(cloud, "/compute/v2.1/flavors/last")["flavor"]["ram"] == 64, "the last committed row is lost"
    after = facts(cloud)
    for part in ("servers", "devices"):  # servers whose workflows ended after the upgrade are not compared
        after[part] = {uuid: said for uuid, said in after[part].items() if uuid not in unfinished}
    for group, said in after["groups"].items():
        known = before["groups"][group]["members"]
        said["members"] = [uuid for uuid in said["members"] if uuid not in unfinished or uuid in known]
    assert set(after) == set(before) - {"unfinished"}
    for part, said in after.items():
        assert said == before[part], part

    assert {uuid: states.get(uuid) for uuid in unfinished} == {
        uuid: _STATUS.get(told["ends"]) for uuid, told in unfinished.items()
    }
    power = {VmState.ACTIVE: PowerState.RUNNING, VmState.STOPPED: PowerState.SHUTDOWN}
    on_disk = power_states_on_disk(cloud.folder / "hypervisors")
    assert {uuid for uuid, state in states.items() if state != VmState.ERROR} == set(on_disk)
    alone = {uuid: state for uuid, state in states.items() if state not in (VmState.ERROR, VmState.RESIZED)}
    assert {uuid: on_disk[uuid] for uuid in alone} == {uuid: power[VmState(state)] for uuid, state in alone.items()}
    _require_guests_untouched(cloud, set(unfinished))


def _require_guests_untouched(cloud: Cloud, unfinished: set[str]) -> None:
    """Assert that the hypervisors' data of settled servers is unchanged."""

    def settled(folder: Path) -> dict[tuple[str, str], Place]:
        files = {file.stem: GuestFile("", file).places for file in (folder / "hypervisors").glob("*.json")}
        return {
            (host, uuid): place
            for host, places in files.items()
            for uuid, place in places.items()
            if uuid not in unfinished
        }

    before = settled(cloud.folder.parent / "before")
    assert len(before) > 5
    assert settled(cloud.folder) == before


def _require_a_cloud_like_any_other(cloud: Cloud, before: dict[str, Any]) -> None:
    """Assert that new servers can be built within old groups and quotas, and that old servers can be deleted."""
    with opened(cloud) as database:
        wait_until_idle(database)
        (apart,) = [uuid for uuid, group in before["groups"].items() if group["policy"] == "anti-affinity"]
        image = next(iter(before["servers"].values()))["image"]
        server = {"name": "web4", "imageRef": image, "flavorRef": "1", "networks": "none"}
        body = {"server": server, "os:scheduler_hints": {"group": apart}}
        status, answer = cloud.ask("POST", "/compute/v2.1/servers", body, token="alice:wonder")
        assert status == 202, answer
        wait_until_idle(database)
        built = get(cloud, f"/compute/v2.1/servers/{answer['server']['id']}")["server"]
        assert built["status"] == "ACTIVE"
        (group,) = [
            each
            for each in get(cloud, "/compute/v2.1/os-server-groups?all_projects=1")["server_groups"]
            if each["id"] == apart
        ]
        homes = [
            get(cloud, f"/compute/v2.1/servers/{uuid}")["server"]["OS-EXT-SRV-ATTR:host"] for uuid in group["members"]
        ]
        assert len(homes) == len(set(homes)) == 4
        for shown in get(cloud, "/compute/v2.1/servers?all_tenants=1")["servers"]:
            assert cloud.ask("DELETE", f"/compute/v2.1/servers/{shown['id']}")[0] == 204
        wait_until_idle(database)
        with database.read() as connection:
            assert check_world(connection, guests_on_disk(cloud.folder / "hypervisors")) == {}
        assert get(cloud, "/compute/v2.1/os-quota-sets/wonder/detail")["quota_set"]["cores"]["in_use"] == 0
