# SPDX-License-Identifier: Apache-2.0
"""Instance actions and their events have Nova's names, which scripts look for. Source: spec LIFECYCLE §8.4."""

import re

import pytest

from kilonova.conductor.workflows.registry import REGISTRY

ACTIONS = {
    "create", "delete", "evacuate", "restore", "stop", "start", "reboot", "rebuild", "revertResize", "confirmResize",
    "resize", "migrate", "pause", "unpause", "suspend", "resume", "rescue", "unrescue", "changePassword", "shelve",
    "shelveOffload", "unshelve", "live-migration", "trigger_crash_dump", "createBackup", "createImage",
    "attach_interface", "detach_interface",
}  # fmt: skip
EVENT = re.compile(r"(api|compute|conductor)_\w+|rebuild_server|cold_migrate")
WITH_ACTION = {kind: workflow for kind, workflow in REGISTRY.items() if workflow.action is not None}


@pytest.mark.parametrize("kind", sorted(WITH_ACTION))
def test_an_action_and_its_events_are_called_as_in_nova(kind: str) -> None:
    workflow = WITH_ACTION[kind]
    assert workflow.action in ACTIONS
    events = [step.event for step in workflow.steps if step.event is not None]
    assert events, "users see nothing of how it went"
    assert all(EVENT.fullmatch(event) for event in events), events


def test_there_are_actions() -> None:
    assert len(WITH_ACTION) > 15


#: Steps without an event: they only write to the database, or, for a build, leave the reason in the fault.
WITHOUT_EVENT = {("build", "claim"), ("resize", "switch"), ("migrate", "switch"), ("evacuate", "begin")}


def test_a_step_that_can_fail_has_an_event_with_the_reason() -> None:
    without = {
        (kind, step.name)
        for kind, workflow in WITH_ACTION.items()
        for step in workflow.steps
        if step.event is None and workflow.can_walk_back(step.name)
    }
    assert without == WITHOUT_EVENT
