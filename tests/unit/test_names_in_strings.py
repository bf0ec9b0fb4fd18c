# SPDX-License-Identifier: Apache-2.0
"""Names that tie code together by strings: each must be the name of something, or a rename would end it in silence."""

import importlib
import inspect
from dataclasses import fields

import pytest

from kilonova.cli.application import COMMANDS
from kilonova.compute import orders
from kilonova.conductor.operations.power_sync import Remedy
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflows.moves import AT_DESTINATION, FIRST_STATUS
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.messaging import messages
from kilonova.model.instance import TaskState
from kilonova.model.instance import TaskState as T
from kilonova.model.transitions import TRANSITIONS
from kilonova.notifications.workflow_rules import PLACED, RULES, SILENT, Rule
from kilonova.notifications.workflow_watch import _SNAPSHOTS

RULED = [(kind, rule) for kind, rules in RULES.items() for rule in rules]
#: Shown when the agent says how far it is.
_SAID_BY_AGENTS = {T.REBOOT_PENDING, T.REBOOT_STARTED, T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD}


def test_each_workflow_has_notifications_or_is_known_to_have_none() -> None:
    assert set(REGISTRY) >= SILENT
    assert set(RULES) == set(REGISTRY) - SILENT


@pytest.mark.parametrize(("kind", "rule"), RULED, ids=[f"{kind}-{index}" for index, (kind, _) in enumerate(RULED)])
def test_a_rule_of_notifications_names_steps_of_its_workflow(kind: str, rule: Rule) -> None:
    named = {*rule.failed_at, *([rule.step] if rule.step else ())}
    assert named <= {step.name for step in REGISTRY[kind].steps}


@pytest.mark.parametrize(("kind", "rule"), RULED, ids=[f"{kind}-{index}" for index, (kind, _) in enumerate(RULED)])
def test_a_rule_of_notifications_reads_facts_that_its_workflow_has(kind: str, rule: Rule) -> None:
    read = {name for name in rule.only.__code__.co_names if name != "bool"}
    assert read <= {fact.name for fact in fields(REGISTRY[kind].facts)}


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_the_tasks_that_an_action_shows_are_those_that_its_steps_write(kind: str) -> None:
    """The first is written when the workflow is stored. What depends on its facts is observed in tests/crash."""
    workflow = REGISTRY[kind]
    shown = set(workflow.transition.shown)
    fixed = {step.shows for step in workflow.steps if isinstance(step.shows, TaskState)}
    assert fixed <= shown
    if kind not in {"batch", "cache-images"} and not any(callable(step.shows) for step in workflow.steps):
        assert shown - {*workflow.transition.shown[:1], *_SAID_BY_AGENTS} <= fixed


def test_what_needs_a_host_claims_one() -> None:
    assert set(PLACED) <= set(REGISTRY)
    assert all(REGISTRY[kind].has("claim") for kind in PLACED)


def test_moves_name_the_steps_at_their_destination() -> None:
    moves = [REGISTRY[kind] for kind in FIRST_STATUS]
    assert all(workflow.is_move for workflow in moves)
    assert all(any(workflow.has(step) for workflow in moves) for step in AT_DESTINATION)


def test_other_names_of_workflows_are_names_of_workflows() -> None:
    assert set(_SNAPSHOTS) <= set(REGISTRY)
    assert {remedy.value for remedy in (Remedy.STOP, Remedy.FORCE_STOP, Remedy.REBOOT)} <= set(REGISTRY)
    assert {workflow.transition.name for workflow in REGISTRY.values()} <= {each.name for each in TRANSITIONS.values()}


def test_steps_at_the_end_of_a_workflow_are_told_of_by_its_end() -> None:
    """The last step ends the workflow, so that it is never only done."""
    told = {(kind, rule.step) for kind, rule in RULED if rule.outcome is Phase.STEP_DONE and not rule.undoing}
    assert not {(kind, step) for kind, step in told if REGISTRY[kind].steps[-1].name == step}


@pytest.mark.parametrize("target", [target for commands in COMMANDS.values() for target in commands.values()])
def test_a_command_is_where_the_table_says(target: str) -> None:
    module, _, name = target.partition(":")
    assert hasattr(importlib.import_module(module), name)
    assert module.startswith("kilonova.cli.commands.")


def test_every_order_is_carried_out() -> None:
    """``carry_out`` matches by class, so an order that it does not name would fail on the host."""
    source = inspect.getsource(orders)
    named = {kind.__name__ for kind in messages.Order.__args__}
    assert not {name for name in named if f"{name}(" not in source} - {"CacheImages"}
