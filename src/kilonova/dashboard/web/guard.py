# SPDX-License-Identifier: Apache-2.0
"""Middleware that protects every page: security headers, session, and refusal of forms that other sites send."""

import secrets

import falcon
import falcon.asgi

from kilonova.dashboard.web.sessions import Sessions

_POLICY = (
    "default-src 'none'; script-src 'nonce-{}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types fragments"
)
#: With "no-referrer", browsers would send the Origin "null" with the forms of these pages.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_COOKIE = "kilonova"
#: Maximum size of a form in bytes.
_LONGEST_FORM = 64 * 1024
#: Paths for users who have not signed in, and those for users who have not chosen a project yet.
_OPEN, _CHOOSING = {"/sign-in", "/healthcheck"}, {"/sign-in", "/sign-in/project", "/sign-out", "/healthcheck"}


class Guard:
    """``origin``: the address of the dashboard in browsers, such as ``https://dashboard.example``.

    None: taken from the request, for a dashboard without a proxy in front of it. ``is_secure``: whether the dashboard
    itself serves TLS.
    """

    def __init__(self, sessions: Sessions, origin: str | None, *, is_secure: bool) -> None:
        self._sessions = sessions
        self._origin = origin
        self._is_secure = is_secure if origin is None else origin.startswith("https:")

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Set headers, and find the session of a request. Raises: HTTPForbidden, HTTPSeeOther, HTTPUnauthorized."""
        req.context.nonce = secrets.token_urlsafe(16)
        req.context.session = None
        resp.set_headers({**_HEADERS, "Content-Security-Policy": _POLICY.format(req.context.nonce)})
        if req.path.startswith("/static/"):
            return
        if req.method not in {"GET", "HEAD"}:
            self._require_own_form(req)
        session = self._sessions.find(self.key_of(req), prolongs=req.path != "/events")
        req.context.session = session
        if session is None and req.path not in _OPEN:
            self._to_sign_in(req, "/sign-in")
        if session is not None and not session.is_complete and req.path not in _CHOOSING:
            self._to_sign_in(req, "/sign-in/project")

    def key_of(self, req: falcon.asgi.Request) -> str | None:
        """Return the key of the session that a request names."""
        return req.cookies.get(self._cookie)

    def give_key(self, resp: falcon.asgi.Response, key: str) -> None:
        """Send the key of a session to the browser."""
        resp.set_cookie(self._cookie, key, http_only=True, same_site="Lax", secure=self._is_secure, path="/")

    def take_key(self, resp: falcon.asgi.Response) -> None:
        """Make the browser forget the key of its session."""
        resp.unset_cookie(self._cookie, path="/", same_site="Lax")

    @property
    def _cookie(self) -> str:
        return f"__Host-{_COOKIE}" if self._is_secure else _COOKIE

    def _require_own_form(self, req: falcon.asgi.Request) -> None:
        is_own = req.get_header("Origin") == (self._origin or req.prefix)
        if not is_own or (req.get_header("Sec-Fetch-Site") or "same-origin") != "same-origin":
            raise falcon.HTTPForbidden(description="Another site has sent this form.")
        if (req.content_length or 0) > _LONGEST_FORM or req.get_header("Transfer-Encoding"):
            raise falcon.HTTPContentTooLarge(description="The form is too long.")

    def _to_sign_in(self, req: falcon.asgi.Request, where: str) -> None:
        """Send the browser to a page for signing in; scripts get 401, and go there themselves."""
        if req.get_header("Fragment"):
            raise falcon.HTTPUnauthorized(headers={"Location": where})
        if req.method in {"GET", "HEAD"} and where == "/sign-in" and req.path not in {"/", "/events"}:
            where = f"/sign-in?to={falcon.uri.encode_value(req.relative_uri)}"
        raise falcon.HTTPSeeOther(where)
