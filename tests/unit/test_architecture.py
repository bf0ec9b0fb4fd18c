# SPDX-License-Identifier: Apache-2.0
"""The import law, as tables. Imports point downwards only, also those for types and those inside functions.

The pure packages cannot do I/O.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kilonova

ROOT = Path(kilonova.__file__).parent

#: Modules that every other one may import: they stand for parts of the language.
LANGUAGE = {"records"}
#: package or module of kilonova → what else of kilonova it may import. A package may always import itself.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "records": set(),
    "decoding": set(),
    "logs": set(),
    "identifiers": set(),
    "clock": set(),
    "wsgi_keys": set(),
    "lasting": set(),
    "process_signals": set(),
    "server": {"errors", "process_signals", "wsgi_keys"},
    "deadline": {"errors"},
    "lease": set(),
    "periodic": {"clock", "errors"},
    "process_parts": {"periodic"},
    "model": set(),
    "placement": {"model", "errors"},
    "scheduler": {"model", "placement", "errors"},
    "planning": {"decoding", "model", "placement", "scheduler", "errors"},
    "guest_metadata": {"model"},
    "scenario": {"model", "scheduler", "errors"},
    "config": {"logs", "messaging", "model", "placement", "scheduler", "errors"},
    "db": {"clock", "deadline", "decoding", "lease", "model", "scheduler", "errors", "identifiers", "periodic"},
    "mirror": {"db", "deadline", "model", "placement", "scheduler", "errors"},
    "change_feed": {"db", "errors"},
    "claims": {
        "db", "deadline", "logs", "mirror", "model", "planning", "scheduler", "errors", "identifiers", "periodic",
    },
    "messaging": {"decoding", "logs", "model", "errors"},
    "conductor": {
        "clock", "claims", "db", "decoding", "guest_metadata", "lease", "logs", "messaging", "model", "errors",
        "identifiers", "network", "periodic",
    },
    "compute": {
        "config", "decoding", "guest_metadata", "lease", "logs", "messaging", "model", "scenario", "errors",
        "identifiers", "periodic", "process_parts",
    },
    "metrics": {"conductor", "db", "errors"},
    "notifications": {"clock", "conductor", "db", "errors", "identifiers", "logs", "model", "periodic"},
    "images": {"logs", "model", "errors"},
    "network": {"deadline", "errors", "logs", "model"},
    "identity": {"logs", "model", "errors"},
    "bundled_services": {"errors", "lasting", "logs", "server"},
    "console_proxy": {"errors", "model", "process_parts"},
    "dashboard": {"errors"},
    "api": {
        "change_feed", "claims", "conductor", "config", "db", "deadline", "decoding", "errors", "guest_metadata",
        "identifiers", "identity", "images", "logs", "metrics", "mirror", "model", "network", "notifications",
        "periodic", "placement", "planning", "scheduler", "wsgi_keys",
    },
    "cli": {
        "api", "change_feed", "claims", "clock", "bundled_services", "compute", "conductor", "config", "console_proxy",
        "dashboard", "db", "errors", "identifiers", "identity", "images", "lasting", "lease", "logs", "messaging",
        "metrics", "mirror", "model", "network", "notifications", "periodic", "planning", "process_parts",
        "process_signals", "scenario", "scheduler", "server",
    },
    "wsgi": {"cli"},
    "__main__": {"cli"},
}  # fmt: skip

#: The standard library, numpy, msgspec and names of traits, as far as it cannot reach a file, a socket, a clock or
#: chance.
HARMLESS = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal", "enum", "fnmatch",
    "fractions", "functools", "heapq", "inspect", "ipaddress", "itertools", "json", "math", "msgspec", "numpy",
    "operator", "os_resource_classes", "os_traits", "re", "string", "types", "typing",
}  # fmt: skip
PURE = {"model", "placement", "planning", "scheduler"}

#: Third-party packages that only some may know.
OWNERS: dict[str, set[str]] = {
    "sqlalchemy": {"db", "change_feed", "claims", "mirror", "conductor", "notifications", "api", "bundled_services"},
    "alembic": {"db", "bundled_services"},
    "falcon": {"api", "dashboard"},
    "httpx": {"dashboard"},
    "jinja2": {"dashboard"},
    "uvicorn": {"cli"},
    "httptools": {"server"},
    "oslo_policy": {"api"},
    "oslo_config": {"config"},
    "oslo_messaging": {"notifications"},
    "keystonemiddleware": {"api"},
    "prometheus_client": {"metrics"},
    "amqp": {"messaging"},
    "oslo_utils": {"compute"},
    "requests": {"identity", "compute", "cli"},
    "keystoneauth1": {"console_proxy", "identity", "images", "network", "cli"},
    "websockets": {"console_proxy"},
    "matplotlib": {"cli"},
    "osc_lib": {"cli"},
    "typer": {"cli"},
    "rich": {"cli"},
}

#: Arrows that must never be drawn, said once more by name.
FORBIDDEN = [
    ("compute", "db"),
    ("compute", "api"),
    ("compute", "conductor"),
    ("api", "compute"),
    ("dashboard", "api"),
    ("dashboard", "db"),
    ("api", "messaging"),
    ("conductor", "api"),
    ("conductor", "compute"),
    ("db", "mirror"),
    ("db", "claims"),
    ("messaging", "db"),
    ("scheduler", "db"),
]


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the top-level part and the file of every module."""
    for file in sorted(ROOT.rglob("*.py")):
        top = file.relative_to(ROOT).parts[0].removesuffix(".py")
        if top != "__init__":
            yield top, file


@cache
def imported(file: Path) -> tuple[str, ...]:
    """Return the dotted names that a module imports, also inside functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where an arrow points"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def parts_of_kilonova(file: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(file) if name.startswith("kilonova.")} - LANGUAGE


def dotted(file: Path) -> str:
    """Return the name that a module is imported by."""
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def arrows() -> dict[str, set[str]]:
    """Return module → the modules of kilonova that it imports anywhere in its text, ``if TYPE_CHECKING`` included."""
    files = {dotted(file): file for _, file in MODULES}
    return {
        module: {
            target
            for name in imported(file)
            for target in (name, name.rpartition(".")[0])
            if target in files and target != module and (target == name or name not in files)
        }
        for module, file in files.items()
    }


def circle(graph: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return modules each of which imports the one before it, the first one at both ends; empty when there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def folder_arrows(graph: Mapping[str, AbstractSet[str]]) -> dict[str, set[str]]:
    """Return folder → the folders that its modules import from, but for modules that list what is below them."""
    folders: dict[str, set[str]] = {}
    for module, targets in graph.items():
        if module in LISTS:
            continue
        own = _folder_of(module)
        folders.setdefault(own, set()).update(there for target in targets if (there := _folder_of(target)) != own)
    return folders


def _folder_of(module: str) -> str:
    """Return the package of a module; modules beside the packages are parts of their own."""
    parts = module.split(".")
    if (ROOT.parent.joinpath(*parts)).is_dir():
        return module
    return module if len(parts) == 2 else ".".join(parts[:-1])


MODULES = list(modules())
#: Registries: each only lists the members below it.
LISTS = {"kilonova.api.compute.family"}


def test_every_part_is_in_the_table() -> None:
    assert {top for top, _ in MODULES} <= set(ALLOWED)


@pytest.mark.parametrize("part", ALLOWED)
def test_arrows_point_downwards(part: str) -> None:
    wrong = {
        str(file.relative_to(ROOT)): extra
        for top, file in MODULES
        if top == part and (extra := parts_of_kilonova(file) - ALLOWED[part] - {part})
    }
    assert not wrong


@pytest.mark.parametrize("part", ALLOWED)
def test_what_nobody_imports_is_not_allowed(part: str) -> None:
    used = set().union(*(parts_of_kilonova(file) for top, file in MODULES if top == part))
    assert not ALLOWED[part] - used


def test_packages_have_an_order() -> None:
    assert not circle(ALLOWED)


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not circle(arrows())


def test_no_folder_imports_itself_by_way_of_others() -> None:
    """A folder that its own subfolders import is two: a kernel, and what uses it."""
    assert not circle(folder_arrows(arrows()))


def test_the_workflow_engine_knows_no_workflow() -> None:
    above = {"kilonova.conductor.workflows", "kilonova.conductor.operations", "kilonova.conductor.periodic"}
    assert not folder_arrows(arrows())["kilonova.conductor.workflow_engine"] & above


def test_the_law_of_folders_sees_a_circle_that_no_module_makes() -> None:
    graph = {"kilonova.a.b.one": {"kilonova.a.two"}, "kilonova.a.three": {"kilonova.a.b.one"}, "kilonova.a.two": set()}
    assert set(circle(folder_arrows(graph))) == {"kilonova.a", "kilonova.a.b"}


def test_the_law_sees_circles_of_types_and_of_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three modules: one imports for types, one inside a function, one from the package that the others are in."""
    for name, text in {
        "__init__": "",
        "one": "if TYPE_CHECKING:\n    from kilonova.part.two import Two\n",
        "two": "def two():\n    import kilonova.part.three\n",
        "three": "from kilonova.part import one\n",
        "four": "from kilonova.part.one import One\n",
    }.items():
        (tmp_path / "kilonova" / "part").mkdir(parents=True, exist_ok=True)
        (tmp_path / "kilonova" / "part" / f"{name}.py").write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path / "kilonova")
    monkeypatch.setitem(globals(), "MODULES", list(modules()))
    assert set(circle(arrows())) == {f"kilonova.part.{name}" for name in ("one", "two", "three")}


@pytest.mark.parametrize(("above", "below"), FORBIDDEN)
def test_some_arrows_are_never_drawn(above: str, below: str) -> None:
    assert below not in ALLOWED[above]


@pytest.mark.parametrize("part", sorted(PURE))
def test_pure_packages_import_nothing_that_can_do_io(part: str) -> None:
    wrong = {
        str(file.relative_to(ROOT)): extra
        for top, file in MODULES
        if top == part
        and (extra := {name.split(".")[0] for name in imported(file)} - HARMLESS - {"kilonova", "logging"})
    }
    assert not wrong


@pytest.mark.parametrize("part", sorted(PURE))
def test_pure_packages_take_chance_and_time_as_arguments(part: str) -> None:
    for top, file in MODULES:
        if top != part:
            continue
        text = file.read_text()
        for word in ("default_rng(", "time.time(", "datetime.now(", "utcnow(", "random.random", "open(", "environ"):
            assert word not in text, f"{file}: {word}"


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_have_owners(library: str) -> None:
    users = {top for top, file in MODULES if library in {name.split(".")[0] for name in imported(file)}}
    assert users <= OWNERS[library]


@pytest.mark.parametrize(("made", "place"), [("Claimer", "core.py"), ("Conductor", "core.py"), ("mount", "apis.py")])
def test_control_processes_are_wired_in_one_place(made: str, place: str) -> None:
    """Tests, too, have theirs from there: with parts of their own, but wired as the real ones."""
    tests = Path(__file__).parents[1]
    makers = set()
    for file in [*ROOT.rglob("*.py"), *tests.rglob("*.py")]:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if f"{made}(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == made:
                makers.add(file)
    assert makers == {ROOT / "cli" / "wiring" / place}


def test_periodic_tasks_of_the_conductor_do_not_import_what_calls_them() -> None:
    for file in (ROOT / "conductor" / "periodic").rglob("*.py"):
        assert not [name for name in imported(file) if name.startswith("kilonova.conductor.service.")], file


def test_no_driver_imports_another() -> None:
    drivers = ROOT / "compute" / "virt"
    for file in drivers.rglob("*.py"):
        own = file.relative_to(drivers).parts[0].removesuffix(".py")
        others = {name.split(".")[3] for name in imported(file) if name.startswith("kilonova.compute.virt.")} - {
            own,
            "abilities",
            "base",
            "host_setup",
        }
        assert not others, file


def test_every_file_names_its_licence_and_packages_say_what_they_are_for() -> None:
    for _, file in MODULES:
        text = file.read_text()
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n"), file
        if file.name == "__init__.py":
            assert ast.get_docstring(ast.parse(text)), file


def test_each_late_import_has_its_reason() -> None:
    """Inside functions only what is optional, or would slow down the start of what does not need it."""
    wrong = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for _, file in MODULES
        for line in file.read_text().splitlines()
        if "PLC0415" in line and not re.search(r"PLC0415.*?(?: - |  # )\w{2,}", line)
    ]
    assert not wrong


def test_handlers_reach_the_database_through_their_context() -> None:
    named = {
        str(file.relative_to(ROOT / "api"))
        for file in (ROOT / "api").rglob("*.py")
        if "backend.database" in file.read_text()
    }
    assert named == {"http.py", "operator/health.py"}, "the health check reads the length of the writer's queue"
