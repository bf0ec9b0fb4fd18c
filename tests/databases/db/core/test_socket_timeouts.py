# SPDX-License-Identifier: Apache-2.0
"""Database servers that hang: requests time out soon, and work continues when the server answers again."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova import deadline
from kilonova.db import resource_classes
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from support.api_client import Answer
from support.control import Control, start_control
from support.database_servers import DatabaseServer
from support.proxies import Proxy

#: Of either kind one of the two ways in which a server hangs: they look the same to a driver.
pytestmark = pytest.mark.parametrize(
    ("kind", "hanging"), [("postgresql", "frozen"), ("mariadb", "black hole")], indirect=True
)
#: The response_timeout of the database here, after which a server counts as one that hangs.
_RESPONSE_S = 0.5
#: For such a time-out; a machine with other things to do takes its time.
_SOON_S = 10.0
Hang = Callable[[], Any]


@pytest.fixture
def url(proxy: Proxy, database_url: str) -> str:
    url = sa.make_url(database_url).set(port=proxy.port).update_query_dict({"connect_timeout": "1"})
    return url.render_as_string(hide_password=False)


@pytest.fixture
def control(tmp_path: Path, url: str) -> Iterator[Control]:
    more = (
        f"[database]\nresponse_timeout = {_RESPONSE_S}\n[DEFAULT]\nreport_interval = 1\n[api]\nrequest_timeout = 60\n"
    )
    started = start_control(tmp_path, database_url=url, more=more)
    started.add_flavor()
    yield started
    started.process.close()


@pytest.fixture
def hanging(request: pytest.FixtureRequest, server: DatabaseServer, proxy: Proxy) -> Callable[[], Any]:
    """The server's processes are stopped; or packets to it and from it get lost."""

    @contextmanager
    def hang() -> Iterator[None]:
        if request.param == "frozen":
            with server.frozen():
                yield
            return
        proxy.is_black_hole = True
        try:
            yield
        finally:
            proxy.is_black_hole = False
            proxy.drop()

    return hang


def timed(ask: Callable[[], Answer]) -> tuple[int, float]:
    began = time.monotonic()
    return ask().status, time.monotonic() - began


def until(happens: Callable[[], bool], limit_s: float = 30.0) -> None:
    ends = time.monotonic() + limit_s
    while not happens():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_requests_are_refused_and_all_goes_on_afterwards(control: Control, hanging: Hang) -> None:
    before = control.boot()
    assert before["status"] == "ACTIVE"
    requests: list[Callable[[], Answer]] = [
        lambda: control.member.get("/servers"),
        lambda: control.admin.get("/os-hypervisors"),
        control.ask,
        lambda: control.member.delete(f"/servers/{before['id']}"),
        lambda: control.placement.get("/allocation_candidates?resources=VCPU:1"),
        lambda: control.placement.post("/resource_providers", {"name": "p"}),
        lambda: control.member.post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}}),
    ]
    with ThreadPoolExecutor(32) as pool, hanging():
        first = [pool.submit(timed, ask) for ask in requests * 3]
        found = [future.result(60) for future in first]
        assert {status for status, _ in found} == {503}
        assert max(taken for _, taken in found) < _SOON_S
        found = [timed(ask) for ask in requests]
        assert {status for status, _ in found} == {503}
        assert statistics.median(taken for _, taken in found) < _RESPONSE_S, "that it hangs is known by now"
        assert control.process.mirror.hosts().hosts == ("node1", "node2")
    answers_again = time.time()
    until(lambda: control.member.get("/servers").status == 200)
    assert [each["id"] for each in control.member.get("/servers").body["servers"]] == [before["id"]]
    assert control.member.get("/os-server-groups").body["server_groups"] == []
    assert control.boot()["status"] == "ACTIVE"
    until(lambda: bool((control.process.mirror.snapshot().last_seen > answers_again).all()))
    assert control.member.delete(f"/servers/{before['id']}").status == 204
    assert len(control.check()) == 1


def add_class(name: str) -> Callable[[Any], None]:
    return lambda tx: resource_classes.create(tx, name)


def test_what_the_process_writes_for_itself_waits(url: str, hanging: Hang) -> None:
    database = Database(url, response_timeout_s=_RESPONSE_S)
    database.write(add_class("CUSTOM_0"))
    with ThreadPoolExecutor(8) as pool:
        with hanging():
            own: list[Future[None]] = [pool.submit(database.write, add_class(f"CUSTOM_{n}")) for n in (1, 2)]
            own.append(database.submit(add_class("CUSTOM_3")))
            asked = [pool.submit(write_for_a_request, database, f"CUSTOM_R{n}") for n in (1, 2)]
            for future in asked:
                assert isinstance(future.exception(_SOON_S), Unavailable)
            assert not any(future.done() for future in own)
        for future in own:
            future.result(30)
    with database.read() as connection:
        names = {each.name for each in resource_classes.list_all(connection)}
    assert {name for name in names if name.startswith("CUSTOM")} == {f"CUSTOM_{n}" for n in range(4)}
    database.close()


def write_for_a_request(database: Database, name: str) -> None:
    with deadline.running(deadline.NEVER):
        database.write(add_class(name))


@pytest.mark.usefixtures("hanging")
def test_a_statement_that_takes_long_is_no_reason_to_give_up_a_server(url: str, kind: str) -> None:
    database = Database(url, response_timeout_s=0.3)
    nap = {"postgresql": "SELECT pg_sleep(1)", "mariadb": "SELECT SLEEP(1)"}[kind]
    with database.read() as connection:
        connection.execute(sa.text(nap))
    database.write(add_class("CUSTOM_0"))
    database.close()


def test_a_database_is_closed_while_its_server_hangs(url: str, hanging: Hang) -> None:
    database = Database(url, response_timeout_s=_RESPONSE_S)
    database.write(add_class("CUSTOM_0"))
    with hanging():
        waiting = database.submit(add_class("CUSTOM_1"))
        began = time.monotonic()
        time.sleep(0.2)
        database.close()
        assert time.monotonic() - began < 20
        assert isinstance(waiting.exception(0), Unavailable)
