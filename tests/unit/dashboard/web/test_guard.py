# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.dashboard.application import DashboardOptions
from support.dashboards import Browser, FakeClock, FakeCloud

PAGES = ("/overview", "/hosts", "/hosts/map", "/hosts.csv", "/hosts/by-name/node1", "/servers", "/events", "/about-me")


@pytest.mark.parametrize("path", ["/", *PAGES])
def test_without_a_session_there_are_no_pages(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")
    assert answer.text == ""
    assert browser.get(path, Fragment="1").status_code == 401


@pytest.mark.parametrize("path", ["/sign-in", *PAGES[:6]])
def test_every_page_has_a_strict_policy(operator: Browser, path: str) -> None:
    headers = operator.get(path).headers
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_a_nonce_is_used_once(operator: Browser) -> None:
    policies = {operator.get("/about-me").headers["content-security-policy"] for _ in range(5)}
    assert len(policies) == 5


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://dashboard.test.other.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_refused(operator: Browser, headers: dict[str, str]) -> None:
    assert operator.post("/sign-out", **headers).status_code == 403
    assert operator.get("/about-me").status_code == 200


def test_long_forms_are_refused(browser: Browser) -> None:
    assert browser.sign_in("a" * 70_000).status_code == 413


def test_the_cookie_cannot_be_read_or_sent_by_other_sites(cloud: FakeCloud, clock: FakeClock) -> None:
    options = DashboardOptions(origin="https://dashboard.example")
    browser = Browser(cloud, options, clock)
    answer = browser.post("/sign-in", {"user": "root", "password": "correct horse"}, Origin="https://dashboard.example")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-kilonova=")
    assert {"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert browser.sign_in().status_code == 403  # the form comes from http://dashboard.test


def test_the_session_ends_when_it_is_idle(operator: Browser, clock: FakeClock) -> None:
    clock.now += 1_799
    assert operator.get("/about-me").status_code == 200
    clock.now += 1_801
    assert operator.get("/about-me").status_code == 303
