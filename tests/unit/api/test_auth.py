# SPDX-License-Identifier: Apache-2.0
"""Who the caller is comes from the authentication alone, whatever headers a client sends."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from keystonemiddleware.auth_token._request import _AuthTokenRequest

from kilonova.api.auth import IDENTITY_HEADERS, TokenMemory, noauth2

ROLES = ("member", "reader")


def seen_behind_noauth2(**headers: str) -> dict[str, str]:
    """Return the identity headers that the application behind the test authentication gets."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], _start: Callable[..., Any]) -> Iterable[bytes]:
        seen.update({name: value for name, value in environ.items() if name in IDENTITY_HEADERS})
        return []

    noauth2(app, plain_roles=ROLES)({f"HTTP_{name}": value for name, value in headers.items()}, lambda *_: None)
    return {name.removeprefix("HTTP_"): value for name, value in seen.items()}


def test_every_header_in_which_keystone_tells_who_somebody_is_counts_as_one() -> None:
    request = _AuthTokenRequest.blank("/")
    known = {f"HTTP_{name.upper().replace('-', '_')}" for name in request._all_auth_headers()}
    known.add(f"HTTP_{request._SYSTEM_SCOPE_HEADER.upper().replace('-', '_')}")
    assert known <= IDENTITY_HEADERS


@pytest.mark.parametrize("name", sorted(IDENTITY_HEADERS))
def test_without_a_token_nothing_that_a_client_says_of_itself_arrives(name: str) -> None:
    assert seen_behind_noauth2(**{name.removeprefix("HTTP_"): "admin"}) == {}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X_AUTH_TOKEN": "admin"}, {"X_ROLES": "admin", "X_PROJECT_ID": "admin"}),
        ({"X_AUTH_TOKEN": "ann:blue"}, {"X_ROLES": "member,reader", "X_PROJECT_ID": "blue"}),
        ({"X_AUTH_TOKEN": "ann:blue", "X_PROJECT_ID": "red"}, {"X_ROLES": "member,reader", "X_PROJECT_ID": "red"}),
        ({"X_AUTH_TOKEN": "ann:"}, {"X_ROLES": "member,reader", "X_PROJECT_ID": ""}),
        ({"X_AUTH_TOKEN": "admin", "X_DOMAIN_ID": "default"}, {"X_ROLES": "admin", "X_DOMAIN_ID": "default"}),
        (
            {"X_AUTH_TOKEN": "ann:blue", "OPENSTACK_SYSTEM_SCOPE": "all", "X_ROLES": "reader"},
            {"X_ROLES": "reader", "OPENSTACK_SYSTEM_SCOPE": "all"},
        ),
        (
            {"X_AUTH_TOKEN": "ann:blue", "X_IS_ADMIN_PROJECT": "True"},
            {"X_ROLES": "member,reader", "X_PROJECT_ID": "blue"},
        ),
    ],
)
def test_a_token_for_tests_says_who_and_in_which_scope(headers: dict[str, str], expected: dict[str, str]) -> None:
    user = headers["X_AUTH_TOKEN"].partition(":")[0]
    assert seen_behind_noauth2(**headers) == {"X_IDENTITY_STATUS": "Confirmed", "X_USER_ID": user, **expected}


def test_what_is_known_of_a_token_is_forgotten_in_time() -> None:
    now = [0.0]
    memory = TokenMemory(clock=lambda: now[0])
    memory.set("short", "a", 10)
    memory.set("long", "b", 300)
    now[0] = 9.0
    assert (memory.get("short"), memory.get("long"), memory.get("none")) == ("a", "b", None)
    now[0] = 11.0
    assert (memory.get("short"), memory.get("long")) == (None, "b")


def test_there_is_an_end_to_the_tokens_that_are_known() -> None:
    memory = TokenMemory(clock=lambda: 0.0)
    for number in range(20_001):
        memory.set(f"token{number}", number, 300)
    assert memory.get("token0") is None
    assert memory.get("token20000") == 20_000
