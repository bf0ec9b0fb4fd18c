# SPDX-License-Identifier: Apache-2.0
"""Answers of the compute API about a token."""

from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import exceptions

from kilonova.console_proxy.tokens import ComputeApi, Console
from kilonova.errors import Unavailable

TOLD = {"instance_uuid": "u", "host": "node1", "port": 5900, "internal_access_path": None}


def api(status: int, body: Any = None) -> ComputeApi:
    def get(path: str, **_: Any) -> Any:
        assert path == "/os-console-auth-tokens/a%2Fb"
        if isinstance(body, Exception):
            raise body
        return SimpleNamespace(status_code=status, json=lambda: body)

    return ComputeApi(SimpleNamespace(get=get))


def test_answers() -> None:
    assert api(200, {"console": TOLD}).find("a/b") == Console("u", "node1", 5900)
    assert api(404).find("a/b") is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, None),
        (500, None),
        (200, {"console": {**TOLD, "port": None}}),
        (200, {"console": {**TOLD, "internal_access_path": "vm-1"}}),
        (200, {"error": {}}),
        (200, []),
        (0, exceptions.ConnectFailure("http://x/os-console-auth-tokens/a%2Fb")),
        (0, exceptions.MissingAuthPlugin()),
    ],
)
def test_answers_that_tell_nothing(status: int, body: Any) -> None:
    with pytest.raises(Unavailable) as caught:
        api(status, body).find("a/b")
    assert "a%2Fb" not in str(caught.value.message)
