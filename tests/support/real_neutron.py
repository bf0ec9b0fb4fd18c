# SPDX-License-Identifier: Apache-2.0
"""Real Neutron for tests, on a free port and in a folder of its own, without Keystone.

It has the simulated mechanism, so it binds ports on hosts of any name. Requests need no token and have all rights.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.bundled_services.free_ports import LOOPBACK, free_port
from kilonova.bundled_services.neutron_environment import neutron_python
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.settings import Account, NeutronSettings, save
from support.waiting import wait_for_service

_NO_ONE = Account("neutron", "", "service", ())


@dataclass(frozen=True)
class RealNeutron:
    """Running Neutron. ``url``: its endpoint, without ``/v2.0``. ``pid``: id of its process."""

    url: str
    folder: Path
    pid: int


@contextmanager
def start_neutron(folder: Path, module: str = "kilonova.bundled_services.neutron") -> Iterator[RealNeutron]:
    """Run Neutron in ``folder`` for the duration of the block. Takes five seconds or more.

    ``module``: the module to run, such as ``support.neutron_with_users`` for a Neutron that tells users apart.
    """
    folder.mkdir(exist_ok=True)
    settings = NeutronSettings(str(folder), LOOPBACK, free_port(), "", "RegionOne", _NO_ONE)
    save(settings, folder / "settings.json")
    command = [neutron_python(), "-m", module, "--settings", f"{folder}/settings.json"]
    with (folder / "log").open("wb") as log:
        parent = os.getpid()
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=_environment(),
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no import after fork
        )
    neutron = RealNeutron(f"http://{LOOPBACK}:{settings.port}", folder, process.pid)
    try:
        wait_for_service(process, neutron.url, folder / "log")
        yield neutron
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


@pytest.fixture(scope="session")
def real_neutron(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNeutron]:
    """Fixture: the Neutron of the session. Tests create resources in projects of their own."""
    with start_neutron(tmp_path_factory.mktemp("neutron")) as neutron:
        yield neutron


def _environment() -> dict[str, str]:
    """Return the environment of a process that can import ``support``."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
