# SPDX-License-Identifier: Apache-2.0
"""Tests stand where a reader looks for them: at the path of the module that they test.

``kilonova/a/b.py`` is tested by ``tests/unit/a/test_b.py`` or ``tests/unit/a/test_b_topic.py``. Such files also stand
below ``tests/databases``, which runs on three databases, and below ``tests/api`` for modules of ``kilonova/api``, which
runs whole requests. Tests that need a broker or a hypervisor stand below ``tests/messaging`` for modules of
``kilonova/messaging``, and below ``tests/guests`` for the libvirt driver. A package whose ``__init__.py`` has code of
its own counts as a module. The other folders of ``tests``, and the files directly in a mirror but ``tests/api``, are
suites across many modules, named by topic.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/kilonova"
MODULES = {path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py") if path.stem != "__init__"}
#: Packages with functions or classes of their own.
PACKAGES = {
    path.parent.relative_to(SOURCE)
    for path in SOURCE.rglob("__init__.py")
    if re.search(r"^(def|class) ", path.read_text(encoding="utf-8"), re.MULTILINE)
}
#: Folders of tests that mirror a folder of the code.
MIRRORS = {
    Path("tests/unit"): Path(),
    Path("tests/databases"): Path(),
    Path("tests/api"): Path("api"),
    Path("tests/messaging"): Path("messaging"),
    Path("tests/guests"): Path("compute/virt/libvirt"),
}
#: Folders whose own files may be suites across many modules.
SUITES = MIRRORS.keys() - {Path("tests/api")}
#: Tests across many modules, which no single path fits. This list shrinks.
ELSEWHERE = frozenset(
    {
        "tests/api/test_access.py",
        "tests/api/test_access_across_projects.py",
        "tests/api/test_access_hides_hosts.py",
        "tests/api/test_actions_in_every_state.py",
        "tests/api/test_compute_change_log.py",
        "tests/api/test_deadlines.py",
        "tests/api/test_deadlines_of_drivers.py",
        "tests/api/test_deleted_projects.py",
        "tests/api/test_every_route_authorizes.py",
        "tests/api/test_images_of_hosts.py",
        "tests/api/test_notifications_after_a_restart.py",
        "tests/api/test_notifications_of_failures.py",
        "tests/api/test_notifications_of_resources.py",
        "tests/api/test_notifications_of_servers.py",
        "tests/api/test_remote_address.py",
        "tests/api/test_revocation.py",
        "tests/api/test_status_tasks.py",
        "tests/api/test_time_limits_by_option.py",
    }
)
#: Modules that are declarations: no test of their own would say more than they do.
DECLARATIONS = ("config/", "db/migrations/", "model/vocabulary", "__main__", "wsgi", "wsgi_keys")
#: Share of the other modules with a test at their path. It only rises.
LEAST_SHARE = 0.78


def _tested_at(test: Path) -> Path | None:
    """Return the module or package that a test file is named after, None if there is none."""
    for tests, package in MIRRORS.items():
        if test.is_relative_to(tests):
            folder = package / test.relative_to(tests).parent
            words = test.stem.removeprefix("test_").split("_")
            names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
            return next((folder / name for name in names if folder / name in MODULES | PACKAGES), None)
    return None


def _tests() -> list[Path]:
    found = (path.relative_to(ROOT) for tests in MIRRORS for path in (ROOT / tests).rglob("test_*.py"))
    return sorted(path for path in found if path.parent not in SUITES or _tested_at(path))


def test_a_test_stands_at_the_path_of_its_module() -> None:
    lost = {str(path) for path in _tests() if _tested_at(path) is None}
    assert sorted(lost - ELSEWHERE) == []
    assert sorted(ELSEWHERE - lost) == [], "these have a module by now: take them from the list"


def test_most_modules_have_a_test_at_their_path() -> None:
    names = {str(module) for module in MODULES}
    wanted = {name for name in names if not name.startswith(DECLARATIONS) and "/schemas/" not in name}
    tested = {str(module) for path in _tests() if (module := _tested_at(path)) is not None}
    share = len(wanted & tested) / len(wanted)
    assert share >= LEAST_SHARE, f"{share:.1%}"
    assert share < LEAST_SHARE + 0.02, f"raise LEAST_SHARE: {share:.1%}"


@pytest.mark.parametrize("path", sorted(str(each) for each in DECLARATIONS))
def test_declarations_exist(path: str) -> None:
    assert any(str(module).startswith(path) for module in MODULES)
