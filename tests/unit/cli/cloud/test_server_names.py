# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.cli.cloud.server_names import server_id
from kilonova.errors import InvalidRequest


class Api:
    """Answers with the servers ``listed``, by id and name. ``pattern``: the name that it was asked for."""

    def __init__(self, **listed: str) -> None:
        self.listed = listed
        self.pattern = ""

    def get(self, _service: str, _path: str, _version: str | None = None, **query: str) -> Any:
        self.pattern = query["name"]
        assert query["all_tenants"] == "1"
        return {"servers": [{"id": server, "name": name} for server, name in self.listed.items()]}


def test_a_name_is_no_pattern() -> None:
    api = Api(a="web.1", b="web-1")
    assert server_id(api, "web.1") == "a"
    assert api.pattern == r"^web\.1$"


def test_no_server_and_several_servers_are_errors() -> None:
    with pytest.raises(InvalidRequest, match=r"2 servers .* web; give an id: a, b"):
        server_id(Api(a="web", b="web"), "web")
    with pytest.raises(InvalidRequest, match=r"^no server and no request .* web"):
        server_id(Api(a="WEB"), "web", neither="no server and no request")
