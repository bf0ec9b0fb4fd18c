# SPDX-License-Identifier: Apache-2.0
"""`.ci/run`: what it runs, and how it ends when something fails, with stand-ins for the targets."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = {
    *("setup", "lint", "types", "collect", "test", "e2e", "conformance"),
    *("tempest-sample", "crash-sample", "away-sample", "fault-sample", "guests"),
}
_TOOLS = (
    *("setup.sh", "test_servers.sh", "hypervisor.sh", "networks.sh", "ovn.sh", "peer.sh", "network_guest.sh"),
    "debian_packages.sh",
)
_MAKE = """#!/bin/bash
echo "$2" >>begun
echo "says $2"
case $2 in
{fails}) exit 2 ;;
{hangs}) exec sleep 60 ;;
test)
    for ((n = 0; n < {races}; n++)); do printf 'other\\ttest %d\\n' $n >>"$KILONOVA_UNSTEADY"; done
    for ((n = 0; n < {slow}; n++)); do printf 'time limit\\tslow test %d\\n' $n >>"$KILONOVA_UNSTEADY"; done
    ;;
esac
"""


def run(
    folder: Path, *, fails: str = "-", hangs: str = "-", races: int = 0, slow: int = 0, missing: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run it with targets of which one may fail, or never end, and the tests may be unsteady."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    programs = {f"tools/{tool}": f'#!/bin/bash\necho "{tool} $*" >>begun\n' for tool in _TOOLS}
    programs["tools/test_servers.sh"] = f"#!/bin/bash\nprintf '%s\\n' {missing}\n"
    programs["bin/make"] = _MAKE.format(fails=fails, hangs=hangs, races=races, slow=slow)
    for name, text in programs.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [folder / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False, timeout=30
    )


def begun(folder: Path) -> list[str]:
    return (folder / "begun").read_text().splitlines()


def test_each_target_runs_once_and_says_its_name_on_every_line(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(set(begun(tmp_path)) & TARGETS) == sorted(line for line in begun(tmp_path) if line in TARGETS)
    assert set(begun(tmp_path)) > TARGETS
    assert set(re.findall(r"^\[(\S+)\] says \1$", done.stdout, re.MULTILINE)) == TARGETS
    assert re.search(r"^=== all passed in \d+ s$", done.stdout, re.MULTILINE)
    assert not any(line.startswith("debian_packages.sh") for line in begun(tmp_path))


def test_packages_that_are_missing_are_installed_at_once(tmp_path: Path) -> None:
    assert run(tmp_path, missing="postgresql swtpm").returncode == 0
    (installed,) = (line for line in begun(tmp_path) if line.startswith("debian_packages.sh"))
    assert installed.endswith(" postgresql swtpm")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_target_that_fails_ends_it(tmp_path: Path, target: str) -> None:
    done = run(tmp_path, fails=target)
    assert done.returncode != 0
    assert f"=== {target} FAILED" in done.stdout
    assert "all passed" not in done.stdout


def test_nothing_begins_after_a_failure(tmp_path: Path) -> None:
    run(tmp_path, fails="types")
    assert set(begun(tmp_path)) & TARGETS - {"collect"} == {"setup", "lint", "types"}


def test_the_target_that_measures_time_runs_alone(tmp_path: Path) -> None:
    lines = re.findall(r"^=== (\S+) (started|took)", run(tmp_path).stdout, re.MULTILINE)
    begins = lines.index(("test", "started"))
    assert lines[begins + 1] == ("test", "took")
    assert {name for name, _ in lines[:begins]}.isdisjoint(name for name, _ in lines[begins:])


def test_a_lane_that_hangs_ends_with_the_one_that_fails(tmp_path: Path) -> None:
    done = run(tmp_path, fails="tempest-sample", hangs="fault-sample")
    assert done.returncode != 0
    assert {"fault-sample", "tempest-sample"} <= set(begun(tmp_path))


@pytest.mark.parametrize(("races", "slow"), [(4, 0), (4, 2), (0, 11), (3, 8)])
def test_too_many_unsteady_tests_are_named_and_fail_it(tmp_path: Path, races: int, slow: int) -> None:
    done = run(tmp_path, races=races, slow=slow)
    assert done.returncode != 0
    assert f"=== FAILED: {races + slow} tests were unsteady, {races} of them for a reason other" in done.stdout
    assert ("other\ttest 3" in done.stdout) == (races > 3)
    assert "all passed" not in done.stdout


@pytest.mark.parametrize(("races", "slow"), [(3, 0), (3, 7), (0, 10)])
def test_some_unsteady_tests_pass(tmp_path: Path, races: int, slow: int) -> None:
    assert run(tmp_path, races=races, slow=slow).returncode == 0
