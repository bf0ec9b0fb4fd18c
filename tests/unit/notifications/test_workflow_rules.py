# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.conductor.workflow_engine.run import Failure
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.notifications.workflow_rules import RULES, SILENT, rules_for


def told(phase: Phase, kind: str, step: str, **more: Any) -> list[tuple[str, str | None]]:
    event = WorkflowEvent(phase=phase, kind=kind, step=step, instance_uuid="i", request_id="req-1", **more)
    return [(rule.action, rule.phase) for rule in rules_for(event)]


def test_every_workflow_has_rules_or_is_silent_and_every_step_of_a_rule_exists() -> None:
    assert set(RULES) | SILENT == set(REGISTRY)
    assert not set(RULES) & SILENT
    for kind, rules in RULES.items():
        steps = {rule.step for rule in rules} | {step for rule in rules for step in rule.failed_at}
        assert {step for step in steps if step and not REGISTRY[kind].has(step)} == set(), kind


def test_a_rollback_of_a_live_migration_ends_only_if_it_failed_while_it_copied() -> None:
    end = [("live_migration_rollback", "end")]
    assert told(Phase.FAILED, "live-migrate", "prepare", failure=Failure("", step="copy")) == end
    assert told(Phase.FAILED, "live-migrate", "claim", failure=Failure("", step="claim")) == []
    assert told(Phase.FAILED, "live-migrate", "claim") == []


def test_a_step_that_was_undone_is_not_a_step_that_was_done() -> None:
    assert told(Phase.STEP_DONE, "live-migrate", "prepare") == [("live_migration_pre", "end")]
    assert told(Phase.STEP_DONE, "live-migrate", "prepare", undoing=True) == [
        ("live_migration_rollback_dest", "start"),
        ("live_migration_rollback_dest", "end"),
    ]


@pytest.mark.parametrize(
    ("hosts", "actions"), [(None, ["shutdown", "delete"]), (("a",), ["shutdown", "delete"]), ((), ["delete"])]
)
def test_a_delete_without_a_guest_shuts_nothing_down(hosts: Any, actions: list[str]) -> None:
    assert [action for action, _ in told(Phase.DONE, "delete", "", facts=SimpleNamespace(hosts=hosts))] == actions
