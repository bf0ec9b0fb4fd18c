# SPDX-License-Identifier: Apache-2.0
"""Databases of earlier releases with rows in them, upgraded to the present schema."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from kilonova.clock import utc_now
from kilonova.db import flavors, host_agents, instances, request_specs, schema, services, workflows
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec

FLAVOR = Flavor("1", "m1", 1, 512, 1)


class Older:
    """A database at an earlier revision; rows are written with the columns of that revision."""

    def __init__(self, url: str, revision: str) -> None:
        self.database = Database(url)
        config = Config()
        config.set_main_option("script_location", str(schema.MIGRATIONS))
        with self.database.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            self.tables = sa.MetaData()
            self.tables.reflect(connection)

    def insert(self, table: str, **row: Any) -> None:
        with self.database._engines.writer.begin() as connection:
            # MariaDB, which has no type of its own for JSON, shows those columns as text.
            kinds = {name: sa.JSON() if isinstance(value, dict) else None for name, value in row.items()}
            columns = (sa.column(name, kinds[name] or self.tables.tables[table].c[name].type) for name in row)
            connection.execute(sa.insert(sa.table(table, *columns)), row)

    def add_server(self, *, reservation: str = "r-1", **facts: Any) -> str:
        uuid = new_uuid()
        row = {
            "uuid": uuid,
            "name": "vm",
            "hostname": "vm",
            "project_id": "p",
            "user_id": "u",
            "vm_state": "active",
            "power_state": 1,
            "flavor_id": "1",
            "flavor": flavors.as_json(FLAVOR),
            "config_drive": "",
            "metadata": {},
            "reservation_id": reservation,
            "launch_index": 0,
            "disk_config": "MANUAL",
            "progress": 0,
            "created_at": utc_now(),
            "deleted": False,
            **facts,
        }
        self.insert("instances", **row)
        return uuid

    def add_spec(self, uuid: str, spec: RequestSpec, group: str | None = None) -> None:
        body = request_specs.as_json(spec, group)
        self.insert("request_specs", instance_uuid=uuid, request_id=spec.request_id, body=body)


@pytest.fixture
def older(empty_database_url: str) -> Iterator[Callable[[str], Older]]:
    """Makes the database as it was at a revision."""
    made: list[Older] = []

    def at(revision: str) -> Older:
        made.append(Older(empty_database_url, revision))
        return made[-1]

    yield at
    for each in made:
        each.database.close()


def test_instances_of_before_get_the_image_properties_of_their_requests(older: Callable[[str], Older]) -> None:
    before = older("0002")
    image = Image("i", properties={"os_distro": "ubuntu"})
    plain, ubuntu = before.add_server(), before.add_server()
    gone = before.add_server(deleted=True)
    for uuid, asked in ((plain, None), (ubuntu, image), (gone, image)):
        before.add_spec(uuid, RequestSpec(FLAVOR, asked))
    schema.upgrade(before.database)
    with before.database.read() as connection:
        columns = sa.text("SELECT uuid, image_properties FROM instances")
        stored = {row.uuid: row.image_properties for row in connection.execute(columns)}
        assert instances.get(connection, plain).image_properties == {}
        assert instances.get(connection, ubuntu).image_properties == image.properties
    assert stored[gone] is None


def test_the_servers_of_a_request_come_to_share_what_was_asked(older: Callable[[str], Older]) -> None:
    before = older("0005")
    group = new_uuid()
    asked = RequestSpec(FLAVOR, Image("i", "cirros"), request_id="req-1", hints={"group": (group,)})
    other = RequestSpec(FLAVOR, None, request_id="req-2", force_host="a")
    many = [before.add_server(user_data="eA==") for _ in range(150)]
    # The same reservation id, by chance; another request, a server without any, and one that is deleted.
    single = before.add_server(user_data="eQ==")
    bare = before.add_server(user_data="eg==", reservation="r-2")
    nothing = before.add_server(reservation="r-2")
    gone = before.add_server(reservation="r-3", deleted=True)
    for uuid in many:
        before.add_spec(uuid, asked, group)
    before.add_spec(single, other)
    before.add_spec(gone, other)
    flow = {"uuid": new_uuid(), "kind": "build", "instance_uuid": single, "reservation_id": "r-1", "request_id": "req"}
    state = {"step": "claim", "attempt": 0, "body": {}, "owner": "me", "handed_over": False}
    before.insert("workflows", **flow, **state, lease_until=utc_now(), created_at=utc_now())
    schema.upgrade(before.database)
    with before.database.read() as connection:
        found = {uuid: instances.get(connection, uuid) for uuid in (*many, single, bare, nothing)}
        requests = request_specs.get_many(connection, found.values())
        assert connection.execute(sa.text("SELECT count(*) FROM request_specs")).scalar_one() == 4
        assert len({requests[uuid].uuid for uuid in many}) == 1
        shared = requests[many[0]]
        assert (shared.spec, shared.group_uuid, shared.user_data) == (asked, group, "eA==")
        assert (requests[single].spec, requests[single].user_data) == (other, "eQ==")
        assert (requests[bare].spec.flavor, requests[bare].user_data) == (FLAVOR, "eg==")
        assert nothing not in requests
    before.database.write(lambda tx: request_specs.delete_unused(tx, [shared.uuid]))
    adopted = before.database.write(lambda tx: workflows.adopt(tx, "heir", everything=False))
    assert [each.instance_uuid for each in adopted] == [single]
    with before.database.read() as connection:
        assert many[0] in request_specs.get_many(connection, [found[many[0]]]), "it is still in use"


def test_a_request_goes_with_the_last_of_its_servers(older: Callable[[str], Older]) -> None:
    before = older("0005")
    one, two = (before.add_server() for _ in range(2))
    for uuid in (one, two):
        before.add_spec(uuid, RequestSpec(FLAVOR, request_id="req-1"))
    schema.upgrade(before.database)
    with before.database.read() as connection:
        (name,) = connection.execute(sa.text("SELECT uuid FROM request_specs")).scalars()
    for uuid, left in ((one, 0), (two, 1)):
        before.database.write(
            lambda tx, uuid=uuid: tx.execute(sa.text("DELETE FROM instances WHERE uuid = :u"), {"u": uuid})
        )  # type: ignore[misc]
        assert before.database.write(lambda tx: request_specs.delete_unused(tx, [name])) == left


def test_services_keep_their_last_sign_of_life_through_a_process(older: Callable[[str], Older]) -> None:
    """Hosts of a live process, of one that is gone, and of an SQLite cloud, which had no processes; all are down."""
    before = older("0009")
    now = utc_now().replace(microsecond=0)
    times = {"a": now, "b": now, "c": now - timedelta(hours=2), "d": now - timedelta(hours=3), "e": None, "s": now}
    for host, last_seen_at in times.items():
        binary = "nova-scheduler" if host == "s" else "nova-compute"
        facts = {"uuid": new_uuid(), "disabled": False, "forced_down": False, "created_at": now}
        before.insert("services", host=host, binary=binary, last_seen_at=last_seen_at, **facts)
    before.insert("processes", uuid="alive", lease_until=now + timedelta(seconds=50))
    for host, process in (("a", "alive"), ("b", "alive"), ("c", "gone")):
        before.insert("host_agents", host=host, process=process)
    schema.upgrade(before.database)
    with before.database.read() as connection:
        found = {service.host: service for service in services.list_all(connection)}
        assert {host: service.last_seen_at for host, service in found.items()} == times
        assert not any(service.is_up for service in found.values())
        assert host_agents.living(connection, now) == {"alive"}
        assert host_agents.process_of(connection, "c") not in {None, "gone"}
    before.database.write(lambda tx: host_agents.register(tx, Process("new"), ["a", "d"], host_agents.LEASE))
    with before.database.read() as connection:
        up = {service.host for service in services.list_all(connection) if service.is_up}
        assert host_agents.living(connection, before.database.clock.now()) == {"new"}, "which ended the one before"
    assert up == {"a", "d"}
