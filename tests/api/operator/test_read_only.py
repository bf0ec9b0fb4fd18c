# SPDX-License-Identifier: Apache-2.0
"""The read-only switch of operators: writes are refused, while reads and operations under way continue."""

import pytest

from support.api_client import Client
from support.control import IMAGE, Control


@pytest.fixture
def read_only(control: Control, operator: Client) -> Control:
    """A cloud with one server, made read-only."""
    server = control.boot()
    assert operator.put("/read-only", {"read_only": {"enabled": True, "reason": "a look"}}).status == 200
    control.folder.joinpath("server").write_text(server["id"])
    return control


def test_whatever_changes_something_is_refused_and_changes_nothing(read_only: Control) -> None:
    server = read_only.folder.joinpath("server").read_text()
    before = read_only.everything()
    asked = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "none"}
    for client in (read_only.member, read_only.admin):
        for method, path, body in (
            ("POST", "/servers", {"server": asked}),
            ("DELETE", f"/servers/{server}", None),
            ("POST", f"/servers/{server}/action", {"os-stop": None}),
            ("PUT", f"/servers/{server}/metadata", {"metadata": {}}),
            ("POST", "/os-aggregates", {"aggregate": {"name": "a"}}),
        ):
            answer = client.send(method, path, body)
            assert answer.status == 503, (method, path)
            assert answer.fault[0] == "serviceUnavailable"
            assert "read-only at present (a look)" in answer.fault[1]
            assert answer.headers["retry-after"] == "60"
    answer = read_only.placement.put("/traits/CUSTOM_A")
    assert (answer.status, answer.error["title"]) == (503, "Service Unavailable")
    assert "read-only" in answer.detail
    assert read_only.everything() == before


def test_reads_are_answered_whatever_their_method_is(read_only: Control, operator: Client) -> None:
    server = read_only.folder.joinpath("server").read_text()
    assert read_only.member.get(f"/servers/{server}").status == 200
    assert read_only.member.send("HEAD", "/servers").status == 200
    assert read_only.placement.get("/traits").status == 200
    answer = read_only.member.post(f"/servers/{server}/action", {"os-getConsoleOutput": {}})
    assert answer.status == 200
    assert operator.post("/explain", {"flavor": {"vcpus": 1, "ram": 1}}).status == 200


def test_it_is_refused_as_usual_what_nobody_could_do_anyway(read_only: Control) -> None:
    assert read_only.member.send("PATCH", "/servers").status == 405
    assert read_only.member.post("/nowhere").status == 404
    assert Client(read_only.process.application, "").post("/servers", {}).status == 401


def test_it_ends_as_it_began(read_only: Control, operator: Client) -> None:
    shown = operator.get("/read-only").body["read_only"]
    assert shown["enabled"]
    assert shown["reason"] == "a look"
    assert shown["since"]
    answer = operator.put("/read-only", {"read_only": {"enabled": False}})
    assert answer.body["read_only"] == {"enabled": False, "configured": False, "reason": None, "since": None}
    assert read_only.ask().status == 202
    read_only.settle()


def test_what_is_under_way_goes_on(control: Control, operator: Client) -> None:
    answers = [control.ask(min_count=5, max_count=5) for _ in range(3)]
    assert operator.put("/read-only", {"read_only": {"enabled": True}}).status == 200
    control.settle()
    shown = control.admin.get("/servers?all_tenants=1&status=ACTIVE&limit=5").body
    assert {answer.status for answer in answers} == {202}
    assert len(shown["servers"]) == 5
    assert set(control.check().values()) == {"active"}
