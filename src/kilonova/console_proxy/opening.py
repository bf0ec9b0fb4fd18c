# SPDX-License-Identifier: Apache-2.0
"""What the request that opens a console says: its token, and the page that it comes from.

Clients send the token in one of three places: ``?token=…``; ``?path=%3Ftoken%3D…``, as it is in the address that users
are given; and, noVNC before 1.1, in a cookie.
"""

import re
from collections.abc import Collection, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

#: Nothing else is worth asking the compute API about.
_TOKEN = re.compile(r"[0-9A-Za-z_-]{8,128}")
_WEB = frozenset({"http", "https"})


def token_of(target: str, cookies: Sequence[str]) -> str | None:
    """Return the token of a request, None where there is none that could be one.

    ``target``: path and query; ``cookies``: the values of its Cookie headers.
    """
    try:
        query = parse_qs(urlsplit(target).query, max_num_fields=32)
        inner = parse_qs(urlsplit(query["path"][-1]).query, max_num_fields=32) if "path" in query else {}
    except ValueError:
        return None
    found = (query.get("token") or inner.get("token") or [_in_cookies(cookies)])[-1]
    return found if _TOKEN.fullmatch(found) else None


def _in_cookies(cookies: Sequence[str]) -> str:
    for each in ";".join(cookies).split(";"):
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(each.strip())
        except CookieError:
            continue
        if "token" in jar:
            return jar["token"].value
    return ""


def may_come_from(origins: Sequence[str], host: str | None, allowed: Collection[str], *, over_tls: bool) -> bool:
    """Tell whether the page that opens a console may do so. Clients that are no browsers name no page, and may.

    Else a page of anybody could use the cookies of whoever looks at it.

    ``origins``: values of its Origin headers. ``host``: by which name the proxy was called. ``allowed``: names of other
    hosts. ``over_tls``: whether the browser speaks TLS, with the proxy or with what stands before it.
    """
    if not origins:
        return True
    if len(origins) > 1:
        return False
    try:
        page, here = urlsplit(origins[0]), urlsplit(f"//{host or ''}").hostname
    except ValueError:
        return False
    if page.scheme not in _WEB or not page.hostname or (over_tls and page.scheme != "https"):
        return False
    return page.hostname in {here, *(name.lower() for name in allowed)}
