# SPDX-License-Identifier: Apache-2.0
"""The body of a request with an unknown token is not read, in any API. The tests use a real Keystone."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import requests

from api.access_world import World
from kilonova.cli.wiring.http_server import limits_of
from support.http_clients import Serving, request, serving
from support.identity import HOME

KIB = 1024
#: Looks like one of Keystone's, and is none.
MADE_UP = "gAAAAABl" + "x" * 170
PATHS = {"/compute/v2.1/servers": 100 * KIB, "/placement/reshaper": 15 * KIB * KIB, "/operator/v1/explain": 900 * KIB}


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Serving]:
    limits: dict[str, Any] = asdict(limits_of(world.process.settings))
    with serving(world.process.application, **limits) as started:
        yield started


def refused(served: Serving, path: str, token: str, size: int) -> int:
    """Send the head and half of a body, and return the status that comes while the other half is missing."""
    client = served.client()
    client.send(request("POST", path, f"X-Auth-Token: {token}", "OpenStack-API-Version: placement 1.39",
                        "Content-Type: application/json", f"Content-Length: {size}"))  # fmt: skip
    client.send(b" " * (size // 2))
    status = client.answer().status
    assert client.is_closed()
    assert served.server._received == 0
    return status


@pytest.mark.parametrize("path", PATHS)
def test_a_body_with_a_token_that_nobody_issued_is_refused_before_it_is_there(served: Serving, path: str) -> None:
    assert refused(served, path, MADE_UP, PATHS[path]) == 401
    assert refused(served, path, "admin", 10) == 401
    client = served.client().send(
        request("PUT", path, f"X-Auth-Token: {MADE_UP}", "Expect: 100-continue", f"Content-Length: {PATHS[path]}")
    )
    assert client.answer().status == 401, "nobody is told to go on"


def test_a_token_that_was_revoked_counts_no_more_than_a_made_up_one(served: Serving, world: World) -> None:
    token = world.identity.new_token("reader", HOME)
    headers = {"X-Auth-Token": token, "X-Subject-Token": token}
    assert requests.delete(f"{world.identity.url}/auth/tokens", headers=headers, timeout=30).status_code == 204
    assert refused(served, "/compute/v2.1/servers", token, 50 * KIB) == 401


def test_a_body_with_a_token_is_read_as_slowly_as_it_comes(served: Serving, world: World) -> None:
    flavor = {"flavor": {"name": "patient", "ram": 64, "vcpus": 1, "disk": 0, "description": "d" * 1000}}
    body = json.dumps(flavor).encode()
    version = "X-OpenStack-Nova-API-Version: 2.100"
    for token, status in (("admin", 200), ("reader", 403)):
        head = request("POST", "/compute/v2.1/flavors", f"X-Auth-Token: {world.identity.tokens[token, HOME]}", version,
                       "Content-Type: application/json", f"Content-Length: {len(body)}")  # fmt: skip
        client = served.client().send(head)
        for start in range(0, len(body), 200):
            client.send(body[start : start + 200])
        assert client.answer().status == status
