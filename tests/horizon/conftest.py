# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a cloud with Keystone and Glance, Horizon in front of it, and browsers.

These tests run in ``.venv-horizon``, where Horizon and Selenium are installed and Kilonova is not; the cloud comes from
``.venv``. Without Horizon, pytest collects nothing here.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from kilonova.bundled_services.free_ports import free_port
from support.supervisor import Supervisor

collect_ignore_glob = [] if find_spec("openstack_dashboard") else ["test_*.py"]

if find_spec("openstack_dashboard"):
    from dashboard import Dashboard, User

_PYTHON = Path(__file__).parents[2] / ".venv/bin/python"


def start_cloud(folder: Path, *arguments: str) -> Supervisor:
    """Start a cloud and wait until it is ready. ``arguments``: options of ``kilonova up``."""
    command = (str(_PYTHON), "-m", "kilonova", "up")
    return Supervisor(folder / "data", command=command, arguments=arguments).start().until_ready()


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    started = start_cloud(tmp_path_factory.mktemp("cloud"), "--scenario", "moves")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def dashboard(cloud: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Dashboard]":
    started = Dashboard(tmp_path_factory.mktemp("horizon"), cloud.identity, free_port())
    yield started
    started.stop()


@pytest.fixture
def sign_in(
    cloud: Supervisor, dashboard: "Dashboard", request: pytest.FixtureRequest, tmp_path: Path
) -> "Iterator[Callable[[str], User]]":
    """Sign in as the user of a cloud in clouds.yaml. If the test fails, a screenshot is saved."""
    users: list[User] = []

    def signed_in(name: str) -> User:
        auth = yaml.safe_load((cloud.folder / "clouds.yaml").read_text(encoding="utf-8"))["clouds"][name]["auth"]
        users.append(User(dashboard.url))
        users[-1].sign_in(auth["username"], auth["password"])
        return users[-1]

    yield signed_in
    for number, user in enumerate(users):
        if getattr(request.node, "failed", False):
            picture = tmp_path / f"{number}.png"
            user.browser.save_screenshot(str(picture))
            print(f"Last screenshot: {picture}")
        user.browser.quit()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        item.failed = True
    return report
