# SPDX-License-Identifier: Apache-2.0
"""Commands of the stock clients, and which of them each test of this folder uses."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from novaclient.v2 import shell as nova_shell

_HERE = Path(__file__).parent
_GROUPS = ("openstack.compute.v2", "openstack.common")


def openstack_commands() -> set[str]:
    """Return the compute commands of ``openstack`` and the commands that belong to no single service."""
    return {entry.name.replace("_", " ") for group in _GROUPS for entry in entry_points(group=group)}


def nova_commands() -> set[str]:
    """Return the subcommands of ``nova``."""
    return {name.removeprefix("do_").replace("_", "-") for name in dir(nova_shell) if name.startswith("do_")}


def said_in(test: str) -> set[tuple[str, ...]]:
    """Return the word sequences that a test passes as literals, up to the first non-literal and without leading
    options.

    ``test``: ``module::function``. Functions and constants of its module that it uses are included.
    """
    module, _, function = test.partition("::")
    parts = _parts(module)
    found: set[tuple[str, ...]] = set()
    reached, ahead = {function}, [function]
    while ahead:
        for node in ast.walk(parts[ahead.pop()]):
            if isinstance(node, ast.Call):
                found.add(_words(node.args))
            elif isinstance(node, ast.Tuple | ast.List):
                found.add(_words(node.elts))
            elif isinstance(node, ast.Name) and node.id in parts and node.id not in reached:
                reached.add(node.id)
                ahead.append(node.id)
    return found


def uses(test: str, command: str) -> bool:
    """Return whether a test contains the words of a command."""
    wanted = tuple(command.split())
    return any(words[: len(wanted)] == wanted for words in said_in(test))


@cache
def _parts(module: str) -> dict[str, ast.AST]:
    """Return the definitions of a module by name: functions, methods and constants."""
    (path,) = _HERE.rglob(f"{module}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return dict(_named(tree.body))


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _named(statement.body)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, statement.value


def _words(nodes: list[ast.expr]) -> tuple[str, ...]:
    said: list[str] = []
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            break
        said.append(node.value)
    while said and said[0].startswith("--"):
        del said[: 1 if "=" in said[0] else 2]
    return tuple(said)
