# SPDX-License-Identifier: Apache-2.0
"""A spawn that fails because of the request, because of its host, or because the host never answers.

Each ends as documented, with its story in the log and in the events of the server's action.
"""

import logging
from typing import Any

import pytest

from kilonova.errors import DriverError, UnsupportedGuest
from support.control import Control
from support.waiting import wait_until

_EVENT = "compute__do_build_and_run_instance"


def story(caplog: pytest.LogCaptureFixture, uuid: str) -> list[str]:
    """Return the log lines of a server without its UUID and the request id."""
    told = [
        record.getMessage()
        for record in caplog.records
        if record.name == "kilonova.conductor.workflow_engine.server_log"
    ]
    return [line.split(maxsplit=2)[2].rpartition(" [")[0] for line in told if uuid in line]


def events(control: Control, uuid: str, client: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """What the action tells that made a server: its message, and its events, the oldest first."""
    (action,) = client.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    shown = client.get(f"/servers/{uuid}/os-instance-actions/{action['request_id']}").body["instanceAction"]
    return shown["message"], shown["events"][::-1]


def failed_builds(control: Control) -> int:
    with control.process.database.read() as connection:
        return int(connection.exec_driver_sql("SELECT SUM(failed_builds) FROM compute_nodes").scalar_one())


def drivers(control: Control) -> dict[str, Any]:
    return {agent.host: agent.driver for agent in control.process.core.agents}


def raises(error: Exception) -> Any:
    def spawn(_guest: object) -> None:
        raise error

    return spawn


def test_the_fault_of_the_request_counts_against_no_host(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reason = "The hypervisor does not support hw_video_model=qxl."
    for driver in drivers(control).values():
        monkeypatch.setattr(driver, "spawn", raises(UnsupportedGuest(reason)))
    with caplog.at_level(logging.INFO):
        uuid = control.boot()["id"]
    assert failed_builds(control) == 0
    wait_until(lambda: len(story(caplog, uuid)) == 6, "the end of its story")  # it is told once it is so
    told = story(caplog, uuid)
    first = told[1].removeprefix("placed: host ").split(",")[0]
    second = next(name for name in ("node1", "node2") if name != first)
    assert told == [
        "created",
        f"placed: host {first}, node {first}",
        f"failed to spawn: host {first}: {reason} Another host is tried.",
        f"placed: host {second}, node {second}",
        f"failed to spawn: host {second}: {reason} Another host is tried.",
        told[-1],
    ]
    assert told[-1].startswith("failed: build: No valid host was found.")
    message, found = events(control, uuid, control.admin)
    assert message == "Error"
    assert [(event["event"], event["result"], event["host"]) for event in found] == [
        (_EVENT, "Error", first),
        (_EVENT, "Error", second),
    ]
    assert all(event["details"] == reason for event in found)
    _, seen = events(control, uuid, control.member)
    assert all("host" not in event and "details" not in event for event in seen)
    fault = control.member.get(f"/servers/{uuid}").body["server"]["fault"]
    assert reason in fault["message"]
    assert "node" not in fault["message"]
    control.check()


def test_a_host_that_fails_counts_it_and_another_one_takes_the_server(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drivers(control)["node1"], "spawn", raises(DriverError("The disk cannot be written.")))
    with caplog.at_level(logging.INFO):
        servers = [control.boot() for _ in range(2)]
    failed = next(server["id"] for server in servers if len(story(caplog, server["id"])) > 3)
    assert failed_builds(control) >= 1
    assert story(caplog, failed) == [
        "created",
        "placed: host node1, node node1",
        "failed to spawn: host node1: The disk cannot be written. Another host is tried.",
        "placed: host node2, node node2",
        "spawned: host node2",
    ]
    message, found = events(control, failed, control.admin)
    assert message is None
    assert [(event["result"], event["host"], event["details"]) for event in found] == [
        ("Error", "node1", "The disk cannot be written."),
        ("Success", "node2", None),
    ]
    control.check()


def test_a_host_that_never_answers_counts_as_unreachable_after_five_questions(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bus = control.process.core.bus
    for host in ("node1", "node2"):
        monkeypatch.setitem(bus._agents, host, lambda _message: None)
    runner = control.process.conductor.runner
    with caplog.at_level(logging.INFO):
        uuid = control.ask().body["server"]["id"]
        wait_until(lambda: runner.waits_for_agents, "the order is sent")
        shown = control.admin.get(f"/servers/{uuid}").body["server"]
        assert shown["status"] == "BUILD"
        _, (under_way,) = events(control, uuid, control.admin)
        assert (under_way["event"], under_way["finish_time"]) == (_EVENT, None)
        for _ in range(20):  # questions about the spawn, then about what is left of it
            runner.ask_hosts(["node1", "node2"])
            wait_until(lambda: runner.waits_for_agents or not runner.known, "the workflow goes on")
        control.settle()
    host = shown["OS-EXT-SRV-ATTR:host"]
    assert story(caplog, uuid) == [
        "created",
        f"placed: host {host}, node {host}",
        f"failed: build on host {host}: The host of the instance cannot be reached.",
    ]
    message, found = events(control, uuid, control.admin)
    assert message == "Error"
    (event,) = found
    assert (event["result"], event["host"]) == ("Error", host)
    assert event["details"] == "The host of the instance cannot be reached."
    assert "The agent answers no questions." in event["traceback"]
    server = control.member.get(f"/servers/{uuid}").body["server"]
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == "The host of the instance cannot be reached."
