# SPDX-License-Identifier: Apache-2.0
"""How long a token lives on after Keystone has revoked it: as long as ``token_cache_time`` says, and no longer."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from api.access_world import World, start_world
from support.api_client import Client
from support.identity import HOME, Identity

CACHED_S = 2


@pytest.fixture(scope="module", params=[CACHED_S, -1], ids=["remembered for a while", "never remembered"])
def cache_time(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def brief(
    identity: Identity, cache_time: int, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A control process that remembers tokens for ``cache_time`` seconds."""
    folder = tmp_path_factory.mktemp("revocation")
    with start_world(folder, sqlite_template, identity, f"token_cache_time = {cache_time}\n") as world:
        yield world


def status(world: World, token: str) -> int:
    return Client(world.process.application, token).get("/servers").status


def test_a_revoked_token_stops_working_within_the_cache_time(brief: World, cache_time: int) -> None:
    token, other = (brief.identity.new_token("reader", HOME) for _ in range(2))
    assert (status(brief, token), status(brief, other)) == (200, 200)
    headers = {"X-Auth-Token": token, "X-Subject-Token": token}
    began = time.monotonic()
    answer = requests.delete(f"{brief.identity.url}/auth/tokens", headers=headers, timeout=30)
    assert answer.status_code == 204, answer.text
    if cache_time < 0:
        assert status(brief, token) == 401
    else:
        while status(brief, token) == 200:
            assert time.monotonic() < began + cache_time + 1, "a revoked token works for longer than the cache time"
            time.sleep(0.05)
        assert time.monotonic() - began > cache_time / 4, "it was asked for again: nothing was remembered"
        assert status(brief, token) == 401
    assert status(brief, other) == 200, "another token of the same user goes on"
