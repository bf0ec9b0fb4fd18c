# SPDX-License-Identifier: Apache-2.0
import pytest

from support.dashboards import Browser, FakeCloud


def test_the_first_page_is_the_overview(operator: Browser) -> None:
    assert operator.get("/").headers["location"] == "/overview"


def test_the_health_check_needs_no_session(browser: Browser) -> None:
    assert browser.get("/healthcheck").text == "OK"


def test_an_unknown_page_is_a_page(operator: Browser) -> None:
    answer = operator.get("/nowhere")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


def test_a_silent_cloud_is_told(operator: Browser, cloud: FakeCloud) -> None:
    cloud.is_silent = True
    answer = operator.get("/servers")
    assert answer.status_code == 503
    assert "does not answer" in answer.text


def test_an_unexpected_answer_is_no_traceback(operator: Browser, cloud: FakeCloud) -> None:
    cloud.answers["GET", "/v2.1/servers/detail"] = {"unexpected": True}
    answer = operator.get("/servers")
    assert answer.status_code == 500
    assert "KeyError" not in answer.text


@pytest.mark.parametrize(("cookie", "shown"), [("dark", 'data-theme="dark"'), ('"><script>', '<html lang="en">')])
def test_the_theme_is_written_by_the_server(operator: Browser, cookie: str, shown: str) -> None:
    operator.cookies["theme"] = cookie
    assert shown in operator.get("/about-me").text
