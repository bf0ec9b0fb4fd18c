# SPDX-License-Identifier: Apache-2.0
"""The operator API about workflows, in front of a whole control process with simulated hosts."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.core import Parts
from kilonova.db import instances, workflows
from kilonova.db.core import tables as t
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import DriverError
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester
from support.api_client import Answer
from support.control import Control, NewControl
from support.waiting import wait_until

SINCE = datetime.fromisoformat("2026-03-15T12:00:00")
MOVER = Requester("req-move", "alice", "wonder")


@pytest.fixture(scope="module")
def clumsy(new_shared_control: NewControl) -> Control:
    """A control process in which what breaks once is stuck."""
    return new_shared_control(parts=Parts(max_tries=1))


def instance(control: Control, uuid: str) -> Instance:
    with control.process.database.read() as connection:
        return instances.get(connection, uuid)


def fail(*_: object, **__: object) -> None:
    raise DriverError("The disk hangs.")


@pytest.fixture
def stuck(clumsy: Control) -> Iterator[dict[str, Any]]:
    """A server whose resize was to be confirmed, as the list of workflows shows that."""
    server = clumsy.boot()
    drivers: list[Any] = [agent.driver for agent in clumsy.process.core.agents]
    operations = clumsy.process.conductor.operations
    operations.moves.migrate(server["id"], MOVER)
    clumsy.settle()
    for driver in drivers:
        driver.__dict__["confirm_move"] = fail
    operations.moves.confirm_resize(server["id"], MOVER)
    found: list[dict[str, Any]] = []

    def is_stuck() -> bool:
        found[:] = clumsy.operator.get("/workflows?stuck=true").body["workflows"]
        return bool(found)

    wait_until(is_stuck, "it is stuck")
    for driver in drivers:
        driver.__dict__.pop("confirm_move")
    yield found[0]
    clumsy.admin.delete(f"/servers/{server['id']}")
    clumsy.check()


def act(control: Control, workflow: str, action: str, body: Any = None) -> Answer:
    return control.operator.post(f"/workflows/{workflow}/{action}", body)


def test_a_stuck_workflow_is_shown_and_retried(clumsy: Control, stuck: dict[str, Any]) -> None:
    assert (
        stuck.items() >= {"kind": "confirm-resize", "step": "drop-source", "state": "stuck", "undoing": False}.items()
    )
    assert stuck["process"] == {"id": clumsy.process.conductor.owner, "alive": True}
    assert stuck["failure"]["stuck_because"] == "The disk hangs."
    shown = clumsy.operator.get(f"/workflows/{stuck['id']}").body["workflow"]
    assert shown["steps"] == [{"name": "drop-source", "state": "under way", "can_be_undone": False}]
    server = f"/servers/{stuck['server_id']}"
    assert clumsy.admin.get(server).body["server"]["status"] == "ERROR"
    refused = clumsy.admin.post(f"{server}/action", {"reboot": {"type": "HARD"}})
    assert (refused.status, "is stuck" in refused.fault[1]) == (409, True)
    answer = act(clumsy, stuck["id"], "retry")
    assert answer.status == 202
    assert answer.body["workflow"]["state"] == "doing"
    clumsy.settle()
    assert clumsy.admin.get(server).body["server"]["status"] == "ACTIVE"
    assert act(clumsy, stuck["id"], "retry").status == 404


def test_what_is_abandoned_says_what_is_left_over(clumsy: Control, stuck: dict[str, Any]) -> None:
    answer = act(clumsy, stuck["id"], "abandon", {})
    assert answer.status == 200
    given_up = answer.body["abandoned"]
    assert given_up["server_id"] == stuck["server_id"]
    assert given_up["hosts"] == ["node1", "node2"]
    assert given_up["migration"]["type"] == "migration"
    assert given_up["migration"]["status"] == "confirming"
    assert "Delete the server" in given_up["remedy"]
    server = clumsy.admin.get(f"/servers/{stuck['server_id']}").body["server"]
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert act(clumsy, stuck["id"], "abandon").status == 404


BUILD, MOVE = {"version": 1, "host": "node1"}, {"version": 1, "migration": "m", "source": "node1"}
DELETE = {"version": 1, "hosts": ["node1"], "networks": True}


# --- rows that nobody works on ----------------------------------------------------------------------------------------


@pytest.fixture
def rows(clumsy: Control) -> Iterator[list[WorkflowRow]]:
    """Workflows of another process in many states, oldest first."""
    failure = {"version": 1, "message": "No disk.", "step": "finish"}
    server = new_uuid()

    def row(kind: str, step: str, **more: Any) -> WorkflowRow:
        return WorkflowRow(
            uuid=new_uuid(),
            kind=kind,
            instance_uuid=more.pop("server", new_uuid()),
            reservation_id="",
            request_id="req-x",
            step=step,
            **more,
        )

    made = [
        row("build", "spawn", facts=BUILD),
        row("resize", "switch", facts=MOVE, undoing=True, failure=failure, tries=3, server=server),
        row("delete", "destroy", facts=DELETE, waiting=True, server=server),
        row("live-migrate", "copy", facts={**MOVE, "networks": True}, interrupt="abort"),
        row("of-a-later-release", "dance"),
        row("resize", "tomorrow"),
        row(
            "revert-resize",
            "abandon",
            facts=MOVE,
            awaited_host="node9",
            awaited_since=datetime.fromisoformat("2026-03-15T12:00:00"),
        ),
    ]
    database = clumsy.process.database
    for each in made:
        database.write(lambda tx, each=each: workflows.insert(tx, [each], "elsewhere"))
    yield made
    database.write(lambda tx: tx.execute(sa.delete(t.workflows)))


def test_steps_of_workflows_in_every_state(clumsy: Control, rows: list[WorkflowRow]) -> None:
    states = {}
    for row in rows:
        shown = clumsy.operator.get(f"/workflows/{row.uuid}").body["workflow"]
        assert shown["process"] == {"id": "elsewhere", "alive": False}
        states[row.kind, row.step] = shown["state"], [step["state"] for step in shown["steps"]]
    assert states == {
        ("build", "spawn"): ("doing", ["done", "under way"]),
        ("resize", "switch"): ("undoing", ["done", "done", "being undone", "undone"]),
        ("delete", "destroy"): ("waiting", ["to come", "to come", "to come"]),
        ("live-migrate", "copy"): ("doing", [*["done"] * 3, "under way", *["to come"] * 4]),
        ("of-a-later-release", "dance"): ("doing", []),
        ("resize", "tomorrow"): ("doing", []),
        ("revert-resize", "abandon"): ("awaiting-host", ["under way", "to come", "to come"]),
    }


def test_waits_for_hosts_are_shown(clumsy: Control, rows: list[WorkflowRow]) -> None:
    shown = clumsy.operator.get(f"/workflows/{rows[6].uuid}").body["workflow"]
    assert (shown["awaited_host"], shown["awaited_since"]) == ("node9", "2026-03-15T12:00:00Z")
    health = clumsy.operator.get("/health").body["health"]
    assert health["workflows"] == {
        "unfinished": len(rows),
        "stuck": 0,
        "awaiting_hosts": [{"host": "node9", "workflows": 1}],
    }
    refused = act(clumsy, rows[6].uuid, "retry")
    assert (refused.status, "continues when host node9 returns" in refused.fault[1]) == (409, True)


def test_filters_and_pages(clumsy: Control, rows: list[WorkflowRow]) -> None:
    def listed(query: str) -> list[str]:
        return [flow["id"] for flow in clumsy.operator.get(f"/workflows?{query}").body["workflows"]]

    ids = [row.uuid for row in rows]
    assert listed("kind=resize") == [ids[1], ids[5]]
    assert listed(f"server={rows[1].instance_uuid}") == ids[1:3]
    assert listed("stuck=true") == []
    assert listed("waiting=true") == [ids[2], ids[6]]
    assert listed("waiting=false") == [*ids[:2], *ids[3:6]]
    assert listed("stuck=false&limit=3") == ids[:3]
    assert listed("limit=0") == []
    refused = clumsy.operator.get(f"/workflows?server={new_uuid()}")
    assert refused.status == 400
    assert "server" in refused.fault[1]
    first = clumsy.operator.get("/workflows?limit=4").body
    (link,) = first["workflows_links"]
    rest = clumsy.operator.get(f"/workflows?{link['href'].partition('?')[2]}").body
    assert [flow["id"] for flow in (*first["workflows"], *rest["workflows"])] == ids
    assert "workflows_links" not in rest


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("kind=dance", "kind"),
        ("stuck=maybe", "stuck"),
        ("server=web-1", "server"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("marker=x", "marker"),
        (f"marker={new_uuid()}", "marker"),
        ("kinds=build", "kinds"),
    ],
)
def test_a_bad_query_names_the_parameter(clumsy: Control, query: str, named: str) -> None:
    answer = clumsy.operator.get(f"/workflows?{query}")
    assert answer.status == 400
    assert named in answer.fault[1]


@pytest.mark.parametrize("action", ["retry", "abandon"])
def test_only_what_is_stuck_and_without_a_body(clumsy: Control, rows: list[WorkflowRow], action: str) -> None:
    assert act(clumsy, rows[0].uuid, action).status == 409
    assert act(clumsy, new_uuid(), action).status == 404
    refused = act(clumsy, rows[0].uuid, action, {"force": True})
    assert refused.status == 400
    assert "force" in refused.fault[1]
