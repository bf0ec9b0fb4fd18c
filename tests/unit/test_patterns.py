# SPDX-License-Identifier: Apache-2.0
"""No pattern of the tree can be made slow: each is fed the worst texts that can be made from it.

Patterns of Python's ``re`` are found by walking the modules, so they must be made when a module is loaded. Patterns of
schemas are matched by an engine that is linear by construction, when they are checked and when an error is explained.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kilonova
from kilonova.api.validation import Compiled, Schemas
from support.worst_texts import LENGTH, TooSlow, cpu_limit, try_worst, worst_texts

ROOT = Path(kilonova.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.py") if "migrations" not in file.parts)
METHODS = {"match", "fullmatch", "search", "sub", "split", "findall", "finditer"}
#: Tables of patterns that are made when they are needed first: module → function.
MADE_LATER = {"kilonova.api.compute.schemas.flavor_extra_specs": "_patterns"}


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def modules() -> tuple[ModuleType, ...]:
    found = (importable(file) for file in FILES if file.stem not in {"__main__", "wsgi"})
    return tuple(module for module in found if module is not None)


def importable(file: Path) -> ModuleType | None:
    """Return a module; None for one that needs libvirt or Neutron, which may have no patterns of its own."""
    try:
        return importlib.import_module(module_of(file))
    except ModuleNotFoundError as error:
        if error.name not in {"libvirt", "neutron"}:
            raise
        return None


def held(value: Any, kind: type[Any], seen: set[int]) -> Iterator[Any]:
    """Yield everything of a kind in a value of a module, however deep."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from held(item, kind, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from held(item, kind, seen)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from held(getattr(value, field.name), kind, seen)


def everything(kind: type[Any]) -> dict[str, Any]:
    """Return name → value of a kind, of all modules. What several modules have is looked into once."""
    found = {}
    known: set[int] = set()
    for module in modules():
        values = dict(vars(module))
        if module.__name__ in MADE_LATER:
            values["made later"] = vars(module)[MADE_LATER[module.__name__]]()
        for name, value in values.items():
            if id(value) in known:
                continue
            known.add(id(value))
            for number, each in enumerate(held(value, kind, set())):
                found.setdefault(id(each), (f"{module.__name__}.{name}[{number}]", each))
    return dict(found.values())


@cache
def uses() -> dict[str, set[str]]:
    """Return name → the attributes that are asked of something of that name anywhere."""
    found: dict[str, set[str]] = {}
    for file in FILES:
        for node in ast.walk(syntax(file)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, set()).add(node.attr)
    return found


def methods_of(name: str) -> set[str]:
    """Return the methods by which a pattern of this name is used; ``fullmatch`` for one without a name of its own."""
    last = name.rpartition(".")[2].partition("[")[0]
    return uses().get(last, set()) & METHODS or {"fullmatch"}


PATTERNS = everything(re.Pattern)
SCHEMAS = everything(Schemas)


def test_patterns_are_made_where_this_test_finds_them() -> None:
    wrong = []
    for file in (file for file in FILES if "re" in file.read_text().split()):
        tree = syntax(file)
        later = MADE_LATER.get(module_of(file))
        inside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            and getattr(function, "name", "") not in {later, "_text"}
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "re":
                wrong.append(f"{file.name}:{node.lineno}: from re import …")
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != "re":
                continue
            if node.attr in METHODS or (node.attr == "compile" and id(node) in inside):
                wrong.append(f"{file.name}:{node.lineno}: re.{node.attr}")
    assert not wrong


def test_what_only_a_libvirt_host_or_neutron_loads_has_no_patterns() -> None:
    for file in ROOT.glob("compute/virt/libvirt/**/*.py"):
        if "libvirt" in {
            name.name for node in syntax(file).body if isinstance(node, ast.Import) for name in node.names
        }:
            assert "re.compile" not in file.read_text(), file.name


def test_no_other_engine_sees_a_pattern() -> None:
    """The databases have engines of their own, and the explaining library uses ``re``."""
    wrong = [
        f"{file.name}: {word}"
        for file in FILES
        for word in ("regexp_match", "Draft202012Validator(", "jsonschema.validate(", "import regex")
        if word in file.read_text()
    ]
    assert not wrong


def test_the_walk_finds_patterns() -> None:
    assert len(PATTERNS) > 80
    assert len(SCHEMAS) > 40


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_linear(name: str) -> None:
    pattern: re.Pattern[Any] = PATTERNS[name]
    if isinstance(pattern.pattern, bytes):
        as_bytes = [getattr(pattern, method) for method in methods_of(name)]
        for match in as_bytes:
            try_worst(pattern.pattern.decode("latin-1"), lambda text, match=match: match(text.encode()), 0)
        return
    for method in methods_of(name):
        if method in {"sub", "split"}:
            continue_with = {"sub": lambda text: pattern.sub("", text), "split": pattern.split}[method]
        elif method in {"findall", "finditer"}:
            continue_with = pattern.findall
        else:
            continue_with = getattr(pattern, method)
        try_worst(pattern.pattern, continue_with, pattern.flags)


@pytest.mark.parametrize(
    "slow",
    [
        r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*",
        r"^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$",
        r"(a+)+$",
        r"(x|xx)*y",
        r"\s*([^:,]+?)\s*:",
        r"\d*\.?\d+",
        r"[a-z]+(-?[a-z]+)*!",
        r"(\w+\s?)*;",
    ],
)
def test_a_slow_pattern_would_be_found(slow: str) -> None:
    with pytest.raises(TooSlow):
        try_worst(slow, re.compile(slow).fullmatch)


def patterns_in(schema: Any) -> Iterator[str]:
    """Yield the patterns of a schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if isinstance(schema.get("patternProperties"), dict):
            yield from schema["patternProperties"]
        for value in schema.values():
            yield from patterns_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns_in(value)


OF_SCHEMAS = sorted(
    {
        pattern
        for schemas in SCHEMAS.values()
        for schema in schemas.by_version.values()
        for pattern in patterns_in(schema)
    }
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_for_the_linear_engine(name: str) -> None:
    """Which knows no look-ahead and no look-behind."""
    schemas: Schemas = SCHEMAS[name]
    for schema in schemas.by_version.values():
        schemas.compiled_by(schema)


@pytest.mark.parametrize("pattern", OF_SCHEMAS)
def test_a_pattern_of_a_schema_is_linear_also_when_its_error_is_explained(pattern: str) -> None:
    value, key = (
        Compiled({"properties": {"field": {"pattern": pattern}}}),
        Compiled({"patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}),
    )
    for text in worst_texts(pattern)[::5]:
        with cpu_limit(0.5, f"{pattern!r} on {text[:40]!r}…{text[-10:]!r}"):
            for compiled, instance in ((value, {"field": text}), (key, {text: "x"})):
                if not compiled.is_valid(instance):
                    compiled.explain(instance)


def test_texts_are_as_long_as_they_should_be() -> None:
    assert max(map(len, worst_texts("(ab)*"))) >= LENGTH
