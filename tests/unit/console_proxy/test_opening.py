# SPDX-License-Identifier: Apache-2.0
from urllib.parse import quote

import pytest

from kilonova.console_proxy.opening import may_come_from, token_of

TOKEN = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("target", "cookies"),
    [
        (f"/?token={TOKEN}", []),
        (f"/?token=old-token&token={TOKEN}", []),
        (f"/websockify?path={quote(f'?token={TOKEN}')}", []),
        (f"/?token={TOKEN}&path={quote('?token=another-token')}", []),
        ("/", [f"a=b; token={TOKEN}"]),
        ("/", ["bad[name]=1", f"token={TOKEN}"]),
    ],
)
def test_a_token_comes_in_one_of_three_places(target: str, cookies: list[str]) -> None:
    assert token_of(target, cookies) == TOKEN


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/?token=",
        "/?token=short",
        f"/?token={'x' * 129}",
        f"/?token={TOKEN}%0d%0aevil",
        "//[bad?token=" + TOKEN,
        "/?" + "&".join(f"a{number}=1" for number in range(40)) + f"&token={TOKEN}",
    ],
)
def test_a_malformed_request_has_no_token(target: str) -> None:
    assert token_of(target, []) is None


@pytest.mark.parametrize("token", ["x" * 8, "x" * 128, "a-Z_09-_"])
def test_a_token_has_between_8_and_128_characters(token: str) -> None:
    assert token_of(f"/?token={token}", []) == token


@pytest.mark.parametrize(
    ("origins", "host", "over_tls", "may"),
    [
        ([], "proxy:6080", True, True),
        (["http://proxy"], "proxy:6080", False, True),
        (["http://PROXY:8080"], "proxy:6080", False, True),
        (["https://horizon"], "proxy:6080", True, True),
        (["http://horizon"], "proxy:6080", True, False),
        (["https://evil"], "proxy:6080", False, False),
        (["https://proxy", "https://evil"], "proxy", False, False),
        (["null"], "proxy", False, False),
        (["file://proxy"], "proxy", False, False),
        (["http://[bad"], "proxy", False, False),
        (["https://evil"], None, False, False),
    ],
)
def test_pages_of_other_sites_open_no_console(origins: list[str], host: str | None, over_tls: bool, may: bool) -> None:
    assert may_come_from(origins, host, ["Horizon"], over_tls=over_tls) is may
