# SPDX-License-Identifier: Apache-2.0
"""/agents: image data by ticket, in front of a store that a test fills."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from api.access_table import BY_TICKET
from api.access_world import FAMILIES
from kilonova.api.agents.application import ROUTES, AgentsApi, Answer, Route, Transfer, is_image_data
from kilonova.cli.wiring.image_tickets import ticket_office
from kilonova.db import enrolment, host_agents, ticket_keys
from kilonova.db.host_agents import LEASE, Process
from kilonova.errors import Conflict, NotFound
from kilonova.images.data import Body, ImageStore, Stored
from kilonova.images.tickets import Direction, TicketOffice
from kilonova.wsgi_keys import BODY_REFUSED
from support.control import Control, NewControl

IMAGE, OTHER_IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b", "155d900f-4e14-4e4c-a73d-069cbf4541e6"
DATA = bytes(range(256)) * 1000


@dataclass
class Pieces:
    """A download of a store in memory."""

    start: int
    data: bytes
    closed: bool = False

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def content_range(self) -> str:
        return f"bytes {self.start}-{self.start + len(self.data) - 1}/{self.start + len(self.data)}"

    def __iter__(self) -> Iterator[bytes]:
        return (self.data[at : at + 1000] for at in range(0, len(self.data), 1000))

    def close(self) -> None:
        self.closed = True


@dataclass
class MemoryStore:
    """An :class:`ImageStore` in memory; an image that is None waits for its data."""

    images: dict[str, bytes | None]
    given: list[Pieces] = field(default_factory=list)

    def read(self, image_id: str, start: int = 0) -> Pieces:
        data = self.images.get(image_id)
        if data is None:
            raise NotFound(f"Image {image_id} could not be found.")
        self.given.append(Pieces(start, data[start:]))
        return self.given[-1]

    def write(self, image_id: str, body: Body, size_bytes: int | None) -> Stored:
        if self.images[image_id] is not None:
            raise Conflict("It has data.")
        data = body.read(-1)
        assert size_bytes in {None, len(data)}
        self.images[image_id] = data
        return Stored(len(data), "sha512", hashlib.sha512(data).hexdigest())


class Unread(io.RawIOBase):
    """A body that nobody may touch."""

    def readinto(self, _buffer: Any) -> int:
        raise AssertionError("the body was read")


@dataclass
class Said:
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    return new_shared_control(flavor=False)


@pytest.fixture
def office(control: Control) -> TicketOffice:
    return control.process.core.office


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore({IMAGE: DATA, OTHER_IMAGE: None})


@pytest.fixture
def api(control: Control, office: TicketOffice, store: MemoryStore) -> AgentsApi:
    return AgentsApi(office, store, lambda host: _has_agent(control, host), threading.BoundedSemaphore(2))


def _has_agent(control: Control, host: str) -> bool:
    with control.process.database.read() as connection:
        return ticket_keys.has_agent(connection, host)


def path_of(host: str = "node1", image_id: str = IMAGE) -> str:
    return f"/v1/hosts/{host}/images/{image_id}/file"


def ask(
    api: Any, method: str = "GET", path: str = "", ticket: str | None = None, body: Any = None, **more: Any
) -> Said:
    said: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path or path_of(), "wsgi.input": body or Unread(), **more}
    if ticket is not None:
        environ["HTTP_AUTHORIZATION"] = f"Bearer {ticket}"
    parts = api(environ, lambda status, headers: said.append((int(status[:3]), dict(headers))))
    data = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return Said(*said[0], data)


def test_a_host_reads_an_image(api: AgentsApi, office: TicketOffice, store: MemoryStore) -> None:
    said = ask(api, ticket=office.issue("node1", IMAGE, Direction.READ))
    assert (said.status, said.body) == (200, DATA)
    assert said.headers["Content-Length"] == str(len(DATA))
    assert store.given[0].closed


@pytest.mark.parametrize(("asked", "start"), [("bytes=1000-", 1000), ("bytes=0-", 0), ("bytes=5-9", 0), ("x", 0)])
def test_a_host_goes_on_where_it_was(api: AgentsApi, office: TicketOffice, asked: str, start: int) -> None:
    said = ask(api, ticket=office.issue("node1", IMAGE, Direction.READ), HTTP_RANGE=asked)
    assert (said.status, said.body) == (206 if start else 200, DATA[start:])
    assert said.headers.get("Content-Range") == (f"bytes {start}-{len(DATA) - 1}/{len(DATA)}" if start else None)


@pytest.mark.parametrize("length", [{"CONTENT_LENGTH": "5"}, {}])
def test_a_host_brings_an_image(
    api: AgentsApi, office: TicketOffice, store: MemoryStore, length: dict[str, str]
) -> None:
    ticket = office.issue("node1", OTHER_IMAGE, Direction.WRITE)
    path = path_of(image_id=OTHER_IMAGE)
    said = ask(api, "PUT", path, ticket, io.BytesIO(b"hello"), **length)
    assert said.status == 200
    assert hashlib.sha512(b"hello").hexdigest().encode() in said.body
    assert store.images[OTHER_IMAGE] == b"hello"
    assert ask(api, "PUT", path, ticket, io.BytesIO(b"hello"), **length).status == 409


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_without_a_good_ticket_there_is_one_answer_and_the_body_is_not_read(
    control: Control, api: AgentsApi, method: str
) -> None:
    settings, database = control.process.settings, control.process.database
    good = ticket_office(settings, database).issue("node1", IMAGE, Direction.READ)
    past = TicketOffice(api.office._load, lambda: 1_000_000.0, 60.0).issue("node1", IMAGE, Direction.READ)
    forged = good[:-1] + ("A" if good[-1] != "A" else "B")
    answers = [
        ask(api, method, path, ticket, **more)
        for path in (path_of(), path_of(host="unknown"), path_of(image_id="unknown"), "/v1/nothing")
        for ticket, more in (
            (None, {}),
            ("", {}),
            (past, {}),
            (forged, {}),
            ("nonsense", {}),
            (None, {"HTTP_AUTHORIZATION": f"Basic {good}"}),
            (None, {"HTTP_X_AUTH_TOKEN": "admin"}),
            (good, {BODY_REFUSED: 401}),
        )
    ]
    assert {(said.status, said.body, *sorted(said.headers)) for said in answers} == {
        (401, answers[0].body, "Content-Length", "Content-Type", "WWW-Authenticate")
    }


def test_a_ticket_for_something_else_is_refused(control: Control, api: AgentsApi, office: TicketOffice) -> None:
    read, write = (office.issue("node1", IMAGE, direction) for direction in Direction)
    gone = office.issue("gone", IMAGE, Direction.READ)
    answers = [
        ask(api, "GET", path_of(), write),
        ask(api, "PUT", path_of(), read),
        ask(api, "GET", path_of(host="node2"), read),
        ask(api, "GET", path_of(image_id=OTHER_IMAGE), read),
        ask(api, "PUT", path_of(image_id=OTHER_IMAGE), write),
        ask(api, "GET", path_of(host="gone"), gone),
    ]
    assert {(said.status, said.body) for said in answers} == {(403, answers[0].body)}
    assert ask(api, "GET", "/v1/nothing", read).status == 404
    assert ask(api, "DELETE", path_of(), read).status == 405


def test_the_ticket_of_an_agent_that_is_revoked_is_void(control: Control, api: AgentsApi, office: TicketOffice) -> None:
    database = control.process.database
    database.write(lambda tx: enrolment.enrol(tx, "agent-9", ["far"]))
    database.write(lambda tx: host_agents.register(tx, Process("session-9", agent="agent-9"), ["far"], LEASE))
    ticket = office.issue("far", IMAGE, Direction.READ)
    assert ask(api, path=path_of("far"), ticket=ticket).status == 200
    database.write(lambda tx: enrolment.revoke(tx, "agent-9"))
    assert ask(api, path=path_of("far"), ticket=ticket).status == 403


def test_an_image_that_is_gone_is_not_found(api: AgentsApi, office: TicketOffice, store: MemoryStore) -> None:
    ticket = office.issue("node1", IMAGE, Direction.READ)
    store.images.clear()
    assert ask(api, ticket=ticket).status == 404


def test_a_cloud_without_images_says_so(control: Control, office: TicketOffice) -> None:
    api = AgentsApi(office, None, lambda _host: True, threading.BoundedSemaphore(2))
    said = ask(api, ticket=office.issue("node1", IMAGE, Direction.READ))
    assert (said.status, said.body) == (502, b'{"code":502,"message":"No image service is configured."}')


def test_there_is_room_for_so_many_transfers_at_once(api: AgentsApi, office: TicketOffice, store: MemoryStore) -> None:
    ticket = office.issue("node1", IMAGE, Direction.READ)
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path_of(), "HTTP_AUTHORIZATION": f"Bearer {ticket}"}
    under_way: list[Any] = [api(dict(environ), lambda *_: None) for _ in range(2)]
    busy = ask(api, ticket=ticket)
    assert (busy.status, busy.headers["Retry-After"]) == (503, "1")
    assert len(store.given) == 2  # nobody was asked for the third
    for each in under_way:
        each.close()
        each.close()
    assert [ask(api, ticket=ticket).status for _ in range(5)] == [200] * 5
    write = office.issue("node1", OTHER_IMAGE, Direction.WRITE)
    for status in (200, 409, 409, 409):
        assert ask(api, "PUT", path_of(image_id=OTHER_IMAGE), write, io.BytesIO(b"x")).status == status


def test_every_route_is_in_the_table_and_there_are_no_others(control: Control) -> None:
    routes = {
        f"agents {method} {template}": route.direction.value
        for template, methods in ROUTES.items()
        for method, route in methods.items()
    }
    assert routes == BY_TICKET
    served = json.loads(ask(control.process.application, path="/").body)["services"]
    assert set(served) == {family.name for family in FAMILIES} | {"agents"}


def test_no_handler_is_asked_before_the_ticket(control: Control, office: TicketOffice, store: MemoryStore) -> None:
    """What holds for every route of the other APIs by policy: here nobody can add one that forgets it."""

    def careless(_data: ImageStore, transfer: Transfer) -> Answer:
        raise AssertionError(transfer)

    routes = {
        path: {method: Route(route.direction, careless) for method, route in methods.items()}
        for path, methods in ROUTES.items()
    }
    api = AgentsApi(office, store, lambda host: _has_agent(control, host), threading.BoundedSemaphore(2), routes)
    for template, methods in ROUTES.items():
        path = template.format(host="node1", image_id=IMAGE)
        for method, route in methods.items():
            assert ask(api, method, path).status == 401
            other = next(each for each in Direction if each is not route.direction)
            assert ask(api, method, path, office.issue("node1", IMAGE, other)).status == 403
            with pytest.raises(AssertionError, match="Transfer"):
                ask(api, method, path, office.issue("node1", IMAGE, route.direction))


def test_the_whole_application_has_it_beyond_tokens(control: Control, office: TicketOffice) -> None:
    application = control.process.application
    assert ask(application, path=f"/agents{path_of()}").status == 401
    said = ask(application, path=f"/agents{path_of()}", ticket=office.issue("node1", IMAGE, Direction.READ))
    assert said.status == 502  # this cloud has no image service
    assert is_image_data("PUT", f"/agents{path_of()}")
    assert not is_image_data("PUT", "/compute/v2.1/file")


def test_keys_are_rotated_and_dropped(control: Control) -> None:
    settings, database = control.process.settings, control.process.database
    before = ticket_office(settings, database).issue("node1", IMAGE, Direction.READ)
    database.write(lambda tx: ticket_keys.rotate(tx, drop_old=False))
    office = ticket_office(settings, database)
    after = office.issue("node1", IMAGE, Direction.READ)
    assert office.read(before).host == office.read(after).host == "node1"
    assert before.partition(".")[0] != after.partition(".")[0]
    database.write(lambda tx: ticket_keys.rotate(tx, drop_old=True))
    with database.read() as connection:
        assert len(ticket_keys.list_all(connection)) == 1
