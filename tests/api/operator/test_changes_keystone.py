# SPDX-License-Identifier: Apache-2.0
"""Streams of the change feed end with tokens of a real Keystone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from api.access_world import HOME, World
from kilonova.api.application import _token_end
from support.api_client import Client


def test_the_end_of_a_token_is_known(world: World) -> None:
    ends: list[datetime | None] = []

    def noticing(environ: dict[str, Any], start_response: Any) -> Any:
        answer = world.process.application(environ, start_response)
        ends.append(_token_end(environ))
        return answer

    client = Client(noticing, world.identity.tokens["admin", HOME], api="operator")
    assert client.get("/changes?wait=0").status == 200
    assert client.get("/changes?wait=0").status == 200, "with the validated token in memory"
    now = datetime.now(UTC).replace(tzinfo=None)
    assert all(end is not None and now < end < now + timedelta(days=1) for end in ends)
