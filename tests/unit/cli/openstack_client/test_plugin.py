# SPDX-License-Identifier: Apache-2.0
"""The real ``openstack`` client with the plug-in, against the APIs of a control process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.control import IMAGE, Control, new_controls
from support.entry_points import write_distribution
from support.http_clients import serving

Openstack = Callable[..., subprocess.CompletedProcess[str]]
_CLIENT = "import sys; from openstackclient.shell import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def control(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with new_controls(sqlite_template, tmp_path_factory.mktemp("cloud")) as start:
        yield start()


@pytest.fixture(scope="module")
def openstack(control: Control, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Openstack]:
    folder = tmp_path_factory.mktemp("plug-in")
    write_distribution(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    path = os.pathsep.join(each for each in (str(folder), *sys.path) if each)
    with serving(control.process.application) as served:

        def run(*words: str, token: str = "admin") -> subprocess.CompletedProcess[str]:
            url = f"http://127.0.0.1:{served.port}/operator/v1"
            chosen = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", token]
            command = [sys.executable, "-c", _CLIENT, *chosen, *words]
            environment = {**kept, "PYTHONPATH": path, "HOME": str(folder)}
            return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)

        yield run


def test_a_question_has_the_answer_of_the_operator_api(control: Control, openstack: Openstack) -> None:
    found = openstack("scheduler", "capacity", "--flavor", "flavor1", "--image", IMAGE, "--json")
    assert found.returncode == 0, found.stderr
    expected = control.operator.post("/capacity", {"flavors": ["flavor1"], "image": IMAGE}).body
    assert json.loads(found.stdout) == expected


def test_tables_jobs_and_exit_codes_are_those_of_kilonova(openstack: Openstack) -> None:
    shown = openstack("scheduler", "capacity", "--flavor", "flavor1", "--job")
    assert shown.returncode == 0, shown.stderr
    assert "flavor1" in shown.stdout
    assert "capacity" in openstack("scheduler", "jobs", "list").stdout
    bad = openstack("scheduler", "capacity", "--flavor", "none")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "flavors[0]" in bad.stderr
    refused = openstack("scheduler", "jobs", "list", token="alice:wonder")
    assert refused.returncode == 1
    assert "kilonova:jobs:list" in refused.stderr


def test_the_client_lists_and_describes_the_commands(openstack: Openstack) -> None:
    listed = openstack("scheduler", "--help")
    assert "scheduler capacity" in listed.stdout
    told = openstack("help", "scheduler", "whatif")
    assert told.returncode == 0, told.stderr
    assert "--flavor" in told.stdout
