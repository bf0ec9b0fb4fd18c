# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/changes: polls through the application, and streams through the HTTP server."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from support.control import Control, NewControl
from support.http_clients import Client, Serving, get, serving
from support.waiting import wait_until


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    return new_shared_control(more="[operator]\nmax_change_streams = 6\nmax_change_streams_per_user = 4\n")


@pytest.fixture(scope="module")
def served(control: Control) -> Iterator[Serving]:
    with serving(control.process.application, threads=2) as started:
        yield started


@pytest.fixture(autouse=True)
def no_client_is_left(control: Control) -> Iterator[None]:
    yield
    wait_until(lambda: clients(control) == 0, "all clients to leave")


def clients(control: Control) -> int:
    (stop,) = [stop for name, stop in control.process.parts._started if name == "change feed"]
    count: int = stop.__self__.clients  # type: ignore[attr-defined]
    return count


def polled(control: Control, query: str = "wait=0") -> dict[str, Any]:
    answer = control.operator.get(f"/changes?{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def make_aggregate(control: Control, name: str) -> int:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": name}})
    assert made.status == 200, made.body
    return int(made.body["aggregate"]["id"])


def follow(served: Serving, query: str = "", *lines: str, token: str = "admin") -> Client:
    client = served.client()
    client.send(get(f"/operator/v1/changes{query}", f"X-Auth-Token: {token}", *lines))
    return client


def opened(served: Serving, query: str = "", *lines: str, token: str = "admin") -> Client:
    """Return a client whose stream has begun."""
    client = follow(served, query, *lines, token=token)
    head = client.line_end(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    assert b"text/event-stream" in head
    return client


def events(client: Client, count: int) -> list[tuple[int, str, Any]]:
    """Return the next events of a stream, but for heartbeats, as (number, kind, data)."""
    found = []
    while len(found) < count:
        lines = dict(line.split(": ", 1) for line in client.line_end(b"\n\n").decode().split("\n"))
        if lines["event"] != "heartbeat":
            found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


def test_a_poll_answers_with_the_changes_after_a_number(control: Control) -> None:
    start = polled(control)["seq"]
    aggregate = make_aggregate(control, "polled")
    found = polled(control, f"after={start}&wait=20")
    assert found["reload"] is False
    (change,) = [each for event in found["events"] for each in event["changes"]]
    assert change == {
        "kind": "aggregate", "id": str(aggregate), "name": "polled", "metadata": {}, "hosts": [],
    }  # fmt: skip
    assert polled(control, f"after={found['seq']}&wait=0") == {"seq": found["seq"], "reload": False, "events": []}


def test_a_poll_waits_until_something_changes_or_its_time_is_over(control: Control) -> None:
    start = polled(control)["seq"]
    began = time.monotonic()
    assert polled(control, f"after={start}&wait=1")["events"] == []
    assert time.monotonic() - began >= 1
    later = threading.Timer(0.3, make_aggregate, (control, "later"))
    later.start()
    began = time.monotonic()
    assert polled(control, f"after={start}&wait=30")["events"]
    assert time.monotonic() - began < 15
    later.join()


def test_what_is_no_longer_kept_is_to_be_loaded_again(control: Control) -> None:
    make_aggregate(control, "trimmed")
    database = control.process.database
    newest = polled(control)["seq"]
    database.write(lambda tx: tx.execute(sa.delete(t.change_log).where(t.change_log.c.seq <= newest)))
    again = {"seq": newest, "reload": True, "events": []}
    assert polled(control, "after=0&wait=20") == again
    assert polled(control, f"after={newest + 1000}&wait=20") == again


@pytest.mark.parametrize(
    "query",
    ["after=-1", "after=x", "wait=51", "wait=-1", "wait=1.5", "after=" + "9" * 19, "a=1", "after=", "after=%00"],
)
def test_bad_parameters_are_named(control: Control, query: str) -> None:
    answer = control.operator.get(f"/changes?{query}")
    assert answer.status == 400, answer.body
    assert query.partition("=")[0] in answer.fault[1]


def test_without_streams_of_the_server_a_client_has_to_poll(control: Control) -> None:
    answer = control.operator.get("/changes")
    assert answer.status == 400
    assert "wait" in answer.fault[1]


def test_only_administrators_follow(control: Control, served: Serving) -> None:
    assert control.member.__class__(control.member.app, "a:b", api="operator").get("/changes?wait=0").status == 403
    assert follow(served, token="a:b").answer().status == 403
    assert follow(served, token="").answer().status == 401


def test_a_stream_continues_after_any_number_and_after_a_reconnection(control: Control, served: Serving) -> None:
    start = polled(control)["seq"]
    make_aggregate(control, "first")
    client = opened(served, f"?after={start}")
    ((first, kind, data),) = events(client, 1)
    assert (kind, data["changes"][0]["name"]) == ("change", "first")
    make_aggregate(control, "second")
    ((second, _, data),) = events(client, 1)
    assert data["changes"][0]["name"] == "second"
    assert second == data["seq"] > first
    again = opened(served, f"?after={start}", f"Last-Event-ID: {first}")
    assert events(again, 1) == [(second, "change", data)]
    for each in (client, again):
        each.sock.close()


def test_a_stream_without_a_number_begins_now_and_reloads_if_it_must(control: Control, served: Serving) -> None:
    client = opened(served)
    assert b"event: heartbeat" in client.line_end(b"\n\n")
    make_aggregate(control, "now")
    ((_, _, data),) = events(client, 1)
    assert data["changes"][0]["name"] == "now"
    newest = polled(control)["seq"]
    behind = opened(served, f"?after={newest + 5}")
    assert events(behind, 1) == [(newest, "reload", {"seq": newest})]
    for each in (client, behind):
        each.sock.close()


def test_a_build_is_followed_from_the_claim_to_the_host(control: Control, served: Serving) -> None:
    client = opened(served, f"?after={polled(control)['seq']}")
    server = control.boot()
    found: list[Any] = []
    while not any(each["kind"] == "server" for each in found):
        ((_, _, data),) = events(client, 1)
        found += data["changes"]
    placed = next(each for each in found if each["kind"] == "server")
    assert (placed["id"], placed["host"]) == (server["id"], server["OS-EXT-SRV-ATTR:host"])
    assert any(each["kind"] == "allocation" and each["used"]["VCPU"] == 1 for each in found)
    client.sock.close()


def test_streams_occupy_no_thread_and_are_limited(control: Control, served: Serving) -> None:
    open_ones = [opened(served) for _ in range(4)]
    answer = follow(served).answer()
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert "You have 4" in answer.json["overLimit"]["message"]
    others = [opened(served, "", "X-Roles: admin", token=f"user{number}:p") for number in range(2)]
    assert follow(served, "", "X-Roles: admin", token="user3:p").answer().status == 429
    assert follow(served, "?wait=0").answer().status == 429, "a poll is a client, too"
    client = served.client()
    assert client.ask(get("/operator/v1/health", "X-Auth-Token: admin")).status == 200
    for each in (*open_ones, *others):
        each.sock.close()


def test_a_stream_ends_with_the_validity_of_the_token(control: Control) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Any:
        ends = datetime.now(UTC) + timedelta(seconds=1.5)
        environ["keystone.token_info"] = {"token": {"expires_at": ends.isoformat().replace("+00:00", "Z")}}
        return control.process.application(environ, start_response)

    with serving(application) as served:
        client = follow(served)
        began = time.monotonic()
        assert b"heartbeat" in client.rest()
        assert 0.5 < time.monotonic() - began < 15
