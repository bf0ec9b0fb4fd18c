# SPDX-License-Identifier: Apache-2.0
"""Response headers that an application must not forge."""

from typing import Any

import pytest

from support.http_clients import get, serving


@pytest.mark.parametrize("place", ["status", "name", "value"])
def test_an_application_cannot_break_out_of_a_line_of_its_answer(place: str) -> None:
    said = {"status": "200 OK", "name": "X-Name", "value": "value"}

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        del environ
        start_response(said["status"], [(said["name"], said["value"]), ("Content-Length", "0")])
        return []

    with serving(app) as unsafe:
        for line in ("a\r\nX-Evil: b", "a\nX-Evil: b", "a\rX-Evil: b", "a\r\n\r\nevil"):
            said[place] = line
            answer = unsafe.client().ask(get())
            assert answer.status == 500
            assert "x-evil" not in answer.headers
