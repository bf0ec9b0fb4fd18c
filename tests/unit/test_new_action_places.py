# SPDX-License-Identifier: Apache-2.0
"""What an action of servers takes, place by place: a registered workflow that lacks one is told where.

The list for people is docs/new-action.md.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from api.access_table import COMPUTE
from crash.starters import STARTERS
from kilonova.api.compute.servers import actions
from kilonova.api.policy import action
from kilonova.conductor import operations
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.model.needed_abilities import CORE, NEEDED, NOT_ASKED
from kilonova.model.transitions import TRANSITIONS
from kilonova.notifications.workflow_rules import RULES, SILENT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/new-action.md").read_text()
STATES = (ROOT / "docs/states.md").read_text()
NOTIFICATIONS = (ROOT / "docs/notifications.md").read_text()
HTTP_LOAD = (ROOT / "tests/crash/http_load.py").read_text()

ABILITIES_OF_HOSTS = (ROOT / "tests/api/compute/servers/test_abilities.py").read_text()

#: These are asked for by other routes than that of actions.
BY_OTHER_ROUTES = {"build", "delete", "soft-delete", "attach-interface", "detach-interface"}
#: Actions that the API calls something else than the rest of Kilonova does.
NAMES_IN_API = {"start": "os-start", "stop": "os-stop", "force-stop": "os-stop"}
#: Steps of other requests.
WITHOUT_ACTION = {"batch", "cache-images"}
#: Kinds of the table that the workflow of another one does.
DONE_BY_OTHERS = {"force-delete": "delete"}

OPERATIONS = [
    vars(importlib.import_module(f"{operations.__name__}.{module.name}"))
    for module in pkgutil.iter_modules(operations.__path__)
]


def name_in_api(kind: str) -> str:
    return NAMES_IN_API.get(kind) or (TRANSITIONS[kind].name if kind in TRANSITIONS else kind)


def is_begun_by_an_operation(kind: str) -> bool:
    workflow = REGISTRY[kind]
    return any(
        value is workflow or (isinstance(value, Mapping) and value.get(kind) is workflow)
        for module in OPERATIONS
        for value in module.values()
    )


def has_a_schema(name: str) -> bool:
    return name in actions.ACTIONS and actions.ACTIONS[name].body is not None


def has_a_rule(name: str) -> bool:
    method, path = action(name)
    return any({"method": method, "path": path} in rule.operations for rule in actions.RULES)


def _of_action(found: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda kind: kind in BY_OTHER_ROUTES or found(name_in_api(kind))


#: Place → whether it has what a kind of workflow needs there, in the order of the page.
PLACES: Mapping[str, Callable[[str], bool]] = {
    "src/kilonova/model/transitions.py": lambda kind: REGISTRY[kind].transition is TRANSITIONS.get(kind),
    "src/kilonova/model/needed_abilities.py": lambda kind: kind in {*NEEDED, *CORE, *NOT_ASKED},
    "src/kilonova/conductor/workflows/registry.py": lambda kind: kind in REGISTRY,
    "src/kilonova/conductor/operations/": is_begun_by_an_operation,
    "src/kilonova/api/compute/schemas/": _of_action(has_a_schema),
    "src/kilonova/api/compute/servers/": _of_action(lambda name: name in actions.ACTIONS and has_a_rule(name)),
    "src/kilonova/notifications/workflow_rules.py": lambda kind: (kind in RULES) != (kind in SILENT),
    "tests/crash/starters.py": lambda kind: bool(STARTERS.get(kind)),
    "tests/crash/http_load.py": _of_action(lambda name: f'{{"{name}": ' in HTTP_LOAD),
    "tests/api/access_table.py": _of_action(
        lambda name: f"compute POST /v2.1/servers/{{server_id}}/action {name}" in COMPUTE
    ),
    "tests/api/compute/servers/test_abilities.py": lambda kind: (
        kind not in NEEDED or kind in BY_OTHER_ROUTES or f'    "{kind}": (' in ABILITIES_OF_HOSTS
    ),
    "docs/states.md": lambda kind: f"| `{kind}` |" in STATES,
    "docs/notifications.md": lambda kind: kind in SILENT or f"| `{kind}` |" in NOTIFICATIONS,
}


@pytest.mark.parametrize("kind", sorted(set(REGISTRY) - WITHOUT_ACTION))
def test_an_action_is_in_every_place(kind: str) -> None:
    assert [place for place, has in PLACES.items() if not has(kind)] == [], "see docs/new-action.md"


def test_the_others_are_no_actions() -> None:
    assert {kind for kind, workflow in REGISTRY.items() if workflow.action is None} == WITHOUT_ACTION


def test_every_row_of_the_table_of_states_is_an_action_that_there_is() -> None:
    assert {DONE_BY_OTHERS.get(kind, kind) for kind in TRANSITIONS} == set(REGISTRY) - WITHOUT_ACTION


def test_a_place_that_lacks_an_action_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action of which nothing is written but its workflow."""
    stop: Workflow[Any] = REGISTRY["stop"]
    monkeypatch.setitem(REGISTRY, "hibernate", stop)  # type: ignore[arg-type]
    lacking = {place for place, has in PLACES.items() if not has("hibernate")}
    assert lacking == set(PLACES) - {
        "src/kilonova/conductor/workflows/registry.py",
        "src/kilonova/conductor/operations/",
        "tests/api/compute/servers/test_abilities.py",
    }


def test_the_page_names_these_places_and_at_most_fourteen() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) <= 14
    named = re.findall(r"`([^`\s]+/[^`\s]*)`", PAGE)
    assert [place for place in dict.fromkeys(named) if place in PLACES] == list(PLACES)
    assert all((ROOT / place).exists() for _, places in rows for place in re.findall(r"`([^`]+)`", places))
