# SPDX-License-Identifier: Apache-2.0
"""Commands of ``kilonova`` that talk to a control process of the test, without a network."""

import json
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from kilonova.cli import application
from kilonova.cli.cloud.connection import Connection, _refusal
from kilonova.cli.cloud.options import using
from support.control import Control


class ConnectionInside:
    """Connection to a control process in the process of the test, as an administrator."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        return self.call("GET", service, path, version, params=query)

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        del version
        client = self._control.operator if service == "kilonova" else self._control.admin
        query = urlencode(arguments.get("params", {}))
        full = f"{path}?{query}" if query else path
        answer = getattr(client, method.lower())(full, *([arguments["json"]] if "json" in arguments else []))
        if answer.status >= 400:
            raise _refusal(answer.status, answer.fault[1], service)
        return answer.body


def run(control: Control, *arguments: str) -> int:
    """Run a command on the cloud of a control process; return its exit code."""
    with using(cast(Connection, ConnectionInside(control))):
        return application.run(application.build(arguments[0]), arguments)


def answered(control: Control, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """Run a command with ``--json``, check its exit code, and return its answer."""
    capsys.readouterr()
    found = run(control, *arguments, "--json")
    shown = capsys.readouterr()
    assert found == code, shown
    return json.loads(shown.out)
