# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilonova.errors import InvalidRequest
from kilonova.identity.projects import KeystoneProjects
from support.http_clients import Serving, serving


class Keystone:
    """Answers with ``status``. ``asked``: path and token of each request."""

    def __init__(self) -> None:
        self.status = 200
        self.asked: list[tuple[str, str]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.asked.append((environ["PATH_INFO"], environ["HTTP_X_AUTH_TOKEN"]))
        start_response(f"{self.status} Whatever", [])
        return [b"{}"]


@pytest.fixture
def keystone() -> Keystone:
    return Keystone()


@pytest.fixture
def served(keystone: Keystone) -> Iterator[Serving]:
    with serving(keystone) as server:
        yield server


@pytest.mark.parametrize("path", ["", "/", "/v3", "/v3/"])
def test_a_project_that_keystone_does_not_know_is_refused(keystone: Keystone, served: Serving, path: str) -> None:
    projects = KeystoneProjects(f"http://127.0.0.1:{served.port}{path}")
    projects.require("wonder", token="t")
    keystone.status = 404
    with pytest.raises(InvalidRequest, match="Project ID nowhere is not a valid project"):
        projects.require("nowhere", token="t")
    assert keystone.asked == [("/v3/projects/wonder", "t"), ("/v3/projects/nowhere", "t")]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_caller_who_may_not_ask_is_not_held_up(
    keystone: Keystone, served: Serving, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    keystone.status = status
    KeystoneProjects(f"http://127.0.0.1:{served.port}").require("wonder", token=None)
    assert f"{status}" in caplog.text


def test_an_absent_keystone_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    KeystoneProjects("http://127.0.0.1:1").require("wonder", token="t")
    assert "'wonder'" in caplog.text
