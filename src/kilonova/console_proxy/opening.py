# SPDX-License-Identifier: Apache-2.0
"""Token and origin of the request that opens a console.

Clients send the token in one of three places: ``?token=…``; ``?path=%3Ftoken%3D…``, as in the URLs that the compute API
returns; or a cookie named ``token`` (noVNC before 1.1).
"""

import re
from collections.abc import Collection, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

#: Form of a token; other values are rejected without a request to the compute API.
_TOKEN = re.compile(r"[0-9A-Za-z_-]{8,128}")
_WEB = frozenset({"http", "https"})


def token_of(target: str, cookies: Sequence[str]) -> str | None:
    """Return the token of a request, or None if it has no well-formed token.

    ``target``: path and query of the request; ``cookies``: values of its Cookie headers.
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
    """Return whether a web page may open a console. A request without an Origin is not from a browser, and is allowed.

    Without this check, a foreign page could open consoles with the cookies of its visitors.

    ``origins``: values of the Origin headers. ``host``: value of the Host header. ``allowed``: host names, in addition
    to ``host``, whose pages may open consoles. ``over_tls``: whether the browser uses TLS, to this proxy or to a
    reverse proxy in front of it.
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
