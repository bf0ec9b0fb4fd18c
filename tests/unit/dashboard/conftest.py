# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.dashboard.application import DashboardOptions
from support.dashboards import Browser, FakeClock, FakeCloud


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def browser(cloud: FakeCloud, clock: FakeClock) -> Browser:
    return Browser(cloud, DashboardOptions(live_every_s=0.01), clock)


@pytest.fixture
def operator(browser: Browser) -> Browser:
    """A browser whose user is an administrator."""
    assert browser.sign_in().status_code == 303
    return browser


@pytest.fixture
def member(browser: Browser) -> Browser:
    """A browser whose user is a member of one project."""
    assert browser.sign_in("ada").status_code == 303
    return browser
