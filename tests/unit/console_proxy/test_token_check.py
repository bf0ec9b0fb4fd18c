# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from kilonova.console_proxy.limits import ConsoleLimits
from kilonova.console_proxy.token_check import TokenCheck, TokenDesk
from kilonova.console_proxy.tokens import Console
from kilonova.errors import Unavailable

TOKEN = "a-good-token"
CONSOLE: Any = type("Console", (), {"instance_uuid": "server"})()


class Tokens:
    """Knows one token. ``asked``: the tokens that were looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False

    def find(self, token: str) -> Console | None:
        self.asked.append(token)
        if self.is_away:
            raise Unavailable("The compute API cannot be reached.")
        return CONSOLE if token == TOKEN else None


class Files:
    def answer(self, _request: Request) -> str:
        return "a file"


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def seats() -> ConsoleLimits:
    return ConsoleLimits(1, 1)


@pytest.fixture
def check(tokens: Tokens, seats: ConsoleLimits) -> Iterator[TokenCheck]:
    known: Any = tokens
    files: Any = Files()
    desk = TokenDesk(known)
    yield TokenCheck(desk, seats, files, (), over_tls=False)
    desk.close()


def answer(check: TokenCheck, token: str = TOKEN, **headers: str) -> Any:
    request = Request(f"/?token={token}", Headers({"Upgrade": "WebSocket", "Host": "proxy", **headers}))
    found = asyncio.run(check.answer(request, "192.0.2.1"))
    return found.status_code if isinstance(found, Response) else found


def test_a_valid_token_opens_its_console(check: TokenCheck) -> None:
    assert answer(check, Origin="http://proxy") == (TOKEN, CONSOLE)
    assert answer(check, Upgrade="h2c") == "a file"


def test_a_token_is_not_looked_up_for_a_page_of_another_site_or_if_it_is_malformed(
    check: TokenCheck, tokens: Tokens
) -> None:
    assert answer(check, Origin="http://evil") == 403
    assert answer(check, "short") == 403
    assert tokens.asked == []
    assert answer(check, "an-unknown-token") == 403


def test_a_reverse_proxy_says_that_the_browser_uses_tls(check: TokenCheck) -> None:
    headers = {"Origin": "http://proxy", "X-Forwarded-Proto": "HTTPS"}
    assert answer(check, **headers) == 403
    assert answer(check, **{**headers, "Origin": "https://proxy"}) == (TOKEN, CONSOLE)


def test_too_many_consoles_and_an_unavailable_api_are_temporary(
    check: TokenCheck, tokens: Tokens, seats: ConsoleLimits
) -> None:
    with seats.take("server"):
        assert answer(check) == 503
    assert answer(check) == (TOKEN, CONSOLE)
    tokens.is_away = True
    assert answer(check) == 503
