# SPDX-License-Identifier: Apache-2.0
"""In which states servers are left is said by the table of transitions, and by no workflow."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.conductor import workflows
from kilonova.model.transitions import TRANSITIONS

SOURCES = sorted(Path(next(iter(workflows.__path__))).glob("*.py"))


def written_states(source: str) -> Iterator[str]:
    """Yield the states that a module names other than to compare a server's with them."""
    tree = ast.parse(source)
    compared = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Set) for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        is_state = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "VmState"
        if is_state and id(node) not in compared:
            yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_workflow_writes_a_state_of_its_own(path: Path) -> None:
    assert not list(written_states(path.read_text("utf-8")))


def test_a_state_that_is_written_is_found() -> None:
    source = "settle(tx, run, VmState.ACTIVE)\nif server.vm_state is VmState.ERROR: pass"
    assert list(written_states(source)) == ["1: VmState.ACTIVE"]


def test_the_other_state_of_an_action_is_another_one_and_beside_a_first() -> None:
    for kind, transition in TRANSITIONS.items():
        if transition.settled_otherwise is not None:
            assert transition.settled not in {None, transition.settled_otherwise}, kind
