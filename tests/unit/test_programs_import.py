# SPDX-License-Identifier: Apache-2.0
"""Programs that no test runs import names that exist: benchmarks, tools, examples, and programs below tests."""

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path
    for folder in ("benchmarks", "tools", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.startswith("test_") and "fixtures" not in path.parts
)


def names_of_kilonova(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield (module, name) of each import from Kilonova; the name is None for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "kilonova":
            yield from ((node.module, name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, None) for name in node.names if name.name.partition(".")[0] == "kilonova")


def exists(module: str, name: str | None) -> bool:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("kilonova")  # a package of hypervisors or peers that is not installed
    if name is None or hasattr(found, name):
        return True
    return hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_program_imports_names_that_exist(path: Path) -> None:
    missing = [f"{module}.{name}" for module, name in names_of_kilonova(path) if not exists(module, name)]
    assert missing == []


def test_the_law_sees_a_name_that_is_gone() -> None:
    assert not exists("kilonova.messaging.bus", "Speaker")
    assert not exists("kilonova.cli.compute", None)
    assert exists("kilonova.messaging.bus", "Sender")
    assert exists("kilonova.cli.commands", "compute")
