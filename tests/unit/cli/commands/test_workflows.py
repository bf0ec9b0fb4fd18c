# SPDX-License-Identifier: Apache-2.0
import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands import workflows
from kilonova.cli.main import main
from kilonova.errors import Conflict, InvalidRequest, KilonovaError, NotFound

UUID = "5b674f73-0000-4000-8000-000000000001"
SERVER = "5b674f73-0000-4000-8000-000000000002"
FLOW = {
    "id": UUID,
    "kind": "resize",
    "server_id": SERVER,
    "request_id": "req-1",
    "batch_id": None,
    "step": "move-away",
    "state": "stuck",
    "undoing": True,
    "attempt": 7,
    "tries": 0,
    "awaited_host": None,
    "awaited_since": None,
    "interrupt": None,
    "failure": {
        "step": "finish",
        "message": "The guest does not fit.",
        "details": "",
        "host": "node2",
        "stuck_because": "The disk hangs.",
    },
    "process": {"id": "p", "alive": False},
    "created_at": "2026-01-01T00:00:00Z",
    "since": "2026-01-01T00:01:00Z",
    "age_seconds": 90061,
    "steps": [
        {"name": "claim", "state": "done", "can_be_undone": True},
        {"name": "move-away", "state": "being undone", "can_be_undone": True},
        {"name": "finish", "state": "undone", "can_be_undone": True},
    ],
}


@dataclass
class FakeApi:
    """Answers with one workflow, or refuses."""

    refusal: KilonovaError | None = None
    asked: list[str] = field(default_factory=list)

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        return self.call("GET", service, path, version, params=query)

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        assert (service, version) == ("kilonova", None)
        assert arguments in ({}, {"params": {}})
        self.asked.append(f"{method} {path}")
        if self.refusal is not None:
            raise self.refusal
        return {"workflow": FLOW}


def printed(show: Any, what: Any) -> list[str]:
    text = io.StringIO()
    show(what, Console(file=text, width=160))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_the_list_says_what_is_stuck_and_where_it_goes_on() -> None:
    lines = printed(workflows.show_list, {"workflows": [FLOW], "workflows_links": [{}]})
    assert f"{UUID} resize {SERVER} move-away stuck 1 day, 1:01:01" in lines
    assert lines[-2:] == [
        "1 workflow stuck: `kilonova workflows show WORKFLOW` shows the reason.",
        f"Show more with --marker {UUID}",
    ]
    assert printed(workflows.show_list, {"workflows": []}) == ["There are no unfinished workflows."]


def test_one_workflow_with_its_steps_and_reasons() -> None:
    lines = printed(workflows.show_one, FLOW)
    assert lines[0] == f"resize {UUID}: stuck"
    assert "← move-away being undone yes" in lines
    assert "Failed at step finish on host node2: The guest does not fit." in lines
    assert "Stuck: The disk hangs." in lines
    assert "run by process p, whose lease has expired: another process takes over" in lines
    assert f"When the cause is removed: kilonova workflows retry {UUID}" in lines


def test_a_workflow_that_waits_for_its_host() -> None:
    waits = {**FLOW, "state": "awaiting-host", "awaited_host": "node2", "awaited_since": "2026-03-15T12:00:00Z"}
    assert f"{UUID} resize {SERVER} move-away awaiting host node2 1 day, 1:01:01" in printed(
        workflows.show_list, {"workflows": [waits]}
    )
    lines = printed(workflows.show_one, waits)
    assert lines[0] == f"resize {UUID}: awaiting host node2"
    assert "waits for host node2 since 2026-03-15T12:00:00Z" in lines
    assert lines[-2:] == [
        "It continues when host node2 returns.",
        f"To abandon the workflow: kilonova workflows abandon {UUID}",
    ]


def test_what_is_left_over_after_an_abandonment() -> None:
    left = {
        "id": UUID,
        "kind": "resize",
        "server_id": SERVER,
        "hosts": ["node1", "node2"],
        "migration": {"id": "m", "type": "resize", "status": "migrating"},
        "remedy": "",
    }
    lines = printed(workflows.show_abandoned, left)
    assert "Hosts with resources, and possibly guests, of the server: node1, node2." in lines
    assert lines[-1] == f"To release the server's resources: openstack server delete {SERVER}"


@pytest.mark.parametrize("action", ["retry", "abandon"])
def test_actions_are_asked_of_the_operator_api(action: str) -> None:
    api = FakeApi()
    workflows.act(api, UUID, action)
    assert api.asked == [f"POST /workflows/{UUID}/{action}"]
    for refusal in (NotFound("It could not be found."), Conflict("It is not stuck.")):
        with pytest.raises(InvalidRequest, match="It "):
            workflows.act(FakeApi(refusal), UUID, action)


@pytest.mark.parametrize("text", ["", "1", "../options", f"{UUID}/retry"])
def test_what_is_no_id_is_not_sent(text: str) -> None:
    api = FakeApi()
    with pytest.raises(InvalidRequest, match="is not the id of a workflow"):
        workflows.find(api, text)
    assert not api.asked


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["list", "--limit", "0"], "limit"),
        (["show"], "WORKFLOW"),
        (["retry", UUID, "--data", "/nowhere"], "has no clouds.yaml"),
        (["mend"], "mend"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workflows", *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
