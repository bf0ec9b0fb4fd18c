# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.dashboard.pages.sign_in import own_path
from support.dashboards import Browser, FakeClock, FakeCloud


def test_a_user_of_one_project_is_signed_in_at_once(browser: Browser) -> None:
    answer = browser.sign_in(to="/servers?status=ERROR")
    assert (answer.status_code, answer.headers["location"]) == (303, "/servers?status=ERROR")
    page = browser.get("/about-me")
    assert "root" in page.text
    assert "the-token" not in page.text + str(page.headers) + str(browser.cookies)


def test_a_wrong_password_is_an_error_of_the_form(browser: Browser) -> None:
    answer = browser.sign_in("ada", "wrong")
    assert answer.status_code == 401
    assert 'value="ada"' in answer.text
    assert "wrong" not in answer.text
    assert not browser.cookies


def test_attempts_are_throttled(browser: Browser, clock: FakeClock) -> None:
    assert [browser.sign_in("ada", "wrong").status_code for _ in range(6)] == [401] * 5 + [429]
    refused = browser.sign_in("ada")
    assert (refused.status_code, int(refused.headers["retry-after"])) == (429, 301)
    assert browser.sign_in("root").status_code == 303
    clock.now += 301
    assert browser.sign_in("ada").status_code == 303


def test_other_spellings_of_a_name_are_the_same_account(browser: Browser) -> None:
    names = ["ada", "Ada", "ADA", " ada", "aDa"]
    assert [browser.sign_in(name, "wrong").status_code for name in names] == [401] * 5
    assert browser.sign_in("AdA").status_code == 429


def test_one_of_several_projects_is_chosen(browser: Browser, cloud: FakeCloud) -> None:
    cloud.projects.append(("project-2", "<b>other</b>"))
    assert browser.sign_in().headers["location"] == "/sign-in/project"
    assert browser.get("/overview").headers["location"] == "/sign-in/project"
    page = browser.get("/sign-in/project")
    assert "&lt;b&gt;other&lt;/b&gt;" in page.text
    key = browser.cookies["kilonova"]
    assert browser.post("/sign-in/project", {"project": "project-1"}).headers["location"] == "/overview"
    assert browser.cookies["kilonova"] != key
    assert browser.get("/overview").status_code == 200
    browser.cookies["kilonova"] = key
    assert browser.get("/overview").status_code == 303


def test_a_user_without_a_project_learns_it(browser: Browser, cloud: FakeCloud) -> None:
    cloud.projects.clear()
    answer = browser.sign_in()
    assert answer.status_code == 403
    assert "no project" in answer.text


@pytest.mark.parametrize(
    "fields",
    [{"how": "token", "token": "the-token-of-root"}, {"how": "application-credential", "id": "root", "secret": "s"}],
)
def test_other_ways_to_sign_in(browser: Browser, fields: dict[str, str]) -> None:
    assert browser.post("/sign-in", fields).status_code == 303
    assert browser.get("/hosts").status_code == 200


def test_a_sign_in_ends_the_session_before(operator: Browser) -> None:
    key = operator.cookies["kilonova"]
    operator.sign_in("ada")
    assert operator.cookies["kilonova"] != key
    operator.cookies["kilonova"] = key
    assert operator.get("/about-me").status_code == 303


def test_signing_out_revokes_the_token(operator: Browser, cloud: FakeCloud) -> None:
    key = operator.cookies["kilonova"]
    assert operator.post("/sign-out").headers["location"] == "/sign-in"
    operator.cookies["kilonova"] = key
    assert operator.get("/about-me").status_code == 303
    assert cloud.revoked == {"the-token-of-root"}


def test_signing_out_everywhere_ends_all_sessions_of_the_user(operator: Browser) -> None:
    first = operator.cookies["kilonova"]
    operator.cookies.clear()
    operator.sign_in()
    operator.post("/sign-out", {"everywhere": "1"})
    operator.cookies["kilonova"] = first
    assert operator.get("/about-me").status_code == 303


def test_a_silent_keystone_is_told(browser: Browser, cloud: FakeCloud) -> None:
    cloud.is_silent = True
    answer = browser.sign_in()
    assert answer.status_code == 503
    assert "does not answer" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "https://other.example/",
        "//other.example",
        "/\\other.example",
        "javascript:alert(1)",
        "/\n/x",
        "/sign-in",
    ],
)
def test_a_page_of_another_site_is_not_the_next_page(text: str | None) -> None:
    assert own_path(text) == "/overview"
