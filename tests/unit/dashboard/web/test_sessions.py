# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime, timedelta

import pytest

from kilonova.dashboard.upstream.cloud_api import Login, Project
from kilonova.dashboard.web.sessions import Sessions
from support.dashboards import FakeClock

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def login(user: str = "ada", *, hours: float = 1.0) -> Login:
    project = Project("project-1", "wonder", "Default")
    return Login("token", user, user, project, ("member",), NOW + timedelta(hours=hours), {})


@pytest.fixture
def sessions(clock: FakeClock) -> Sessions:
    return Sessions(600.0, clock, lambda: NOW + timedelta(seconds=clock.now - 1_000.0))


def test_a_session_is_found_by_its_key_only(sessions: Sessions) -> None:
    key = sessions.begin(login())
    found = sessions.find(key)
    assert found is not None
    assert found.login.user_id == "ada"
    assert sessions.find(key[:-1]) is None
    assert sessions.find(None) is None


def test_keys_are_not_repeated_and_not_stored(sessions: Sessions) -> None:
    keys = {sessions.begin(login(str(number))) for number in range(100)}
    assert len(keys) == 100
    assert not keys & set(vars(sessions)["_by_hash"])


def test_a_request_prolongs_a_session_a_stream_does_not(sessions: Sessions, clock: FakeClock) -> None:
    key = sessions.begin(login())
    clock.now += 500
    assert sessions.find(key) is not None
    clock.now += 500
    assert sessions.find(key, prolongs=False) is not None
    clock.now += 200
    assert sessions.find(key) is None


def test_a_session_ends_with_its_token(sessions: Sessions, clock: FakeClock) -> None:
    key = sessions.begin(login(hours=0.1))
    session = sessions.find(key)
    assert session is not None
    clock.now += 0.1 * 3600 - 1
    assert sessions.find(key) is not None
    clock.now += 2
    sessions.sweep()
    assert session.ended.is_set()
    assert len(sessions) == 0


def test_all_sessions_of_a_user_end_together(sessions: Sessions) -> None:
    mine, other = [sessions.begin(login()) for _ in range(3)], sessions.begin(login("eve"))
    assert len(sessions.end_all_of("ada")) == 3
    assert [sessions.find(key) for key in mine] == [None] * 3
    assert sessions.find(other) is not None


def test_a_user_has_a_limited_number_of_sessions(sessions: Sessions) -> None:
    other = sessions.begin(login("eve"))
    keys = [sessions.begin(login()) for _ in range(30)]
    assert sessions.find(keys[0]) is None
    assert sessions.find(keys[-1]) is not None
    assert sessions.find(other) is not None
    assert len(sessions) == 21
