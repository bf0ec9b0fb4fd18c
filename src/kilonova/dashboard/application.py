# SPDX-License-Identifier: Apache-2.0
"""The dashboard as an ASGI application: its pages, middleware and error pages."""

import logging
import time
from collections.abc import Callable
from typing import Any

import falcon
import falcon.asgi

from kilonova.dashboard.pages import about_me, capacity, hosts, overview, servers, sign_in, what_if
from kilonova.dashboard.upstream.cloud_api import Cloud, Refused
from kilonova.dashboard.upstream.host_map import HostMap
from kilonova.dashboard.web.assets import Assets
from kilonova.dashboard.web.attempts import Attempts
from kilonova.dashboard.web.guard import Guard
from kilonova.dashboard.web.live import HostFeed
from kilonova.dashboard.web.sessions import Sessions
from kilonova.dashboard.web.site import Site, is_fragment
from kilonova.errors import Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_TITLES = {
    403: "You may not see this",
    404: "There is nothing here",
    429: "Too many requests",
    503: "The cloud does not answer",
}


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Options of the application. Units: seconds. ``origin``: as for :class:`Guard`.

    ``attempts``: failed sign-ins of one account within ``attempts_window_s`` before it has to wait.
    """

    origin: str | None = None
    is_secure: bool = False
    default_domain: str = "Default"
    session_idle_s: float = 1800.0
    attempts: int = 5
    attempts_window_s: float = 300.0
    live_every_s: float = 1.0


class Dashboard:
    """The application, with the parts that tests look at."""

    def __init__(self, cloud: Cloud, options: DashboardOptions, clock: Callable[[], float] = time.monotonic) -> None:
        assets = Assets()
        self.sessions = Sessions(options.session_idle_s, clock)
        guard = Guard(self.sessions, options.origin, is_secure=options.is_secure)
        self.site = Site(cloud, self.sessions, guard, f"/static/{assets.release}")
        feed = HostFeed(cloud, self.sessions, self._summary, options.live_every_s)
        attempts = Attempts(options.attempts, options.attempts_window_s, clock)
        self.app = falcon.asgi.App(middleware=[guard])
        self.app.req_options.strip_url_path_trailing_slash = False
        counted = capacity.Capacity(self.site)
        listed, exported = servers.Servers(self.site), hosts.HostExport(self.site, feed)
        routes: dict[str, Any] = {
            "/": Start(),
            "/healthcheck": HealthCheck(),
            "/static/{release}/{name}": assets,
            "/sign-in": sign_in.SignIn(self.site, attempts, options.default_domain),
            "/sign-in/project": sign_in.ChooseProject(self.site),
            "/sign-out": sign_in.SignOut(self.site),
            "/overview": overview.Overview(self.site, feed),
            "/hosts": hosts.Hosts(self.site, feed),
            "/hosts.csv": exported,
            "/hosts.json": exported,
            "/hosts/map": hosts.MapColumns(self.site, feed),
            "/hosts/by-name/{name}": hosts.Host(self.site, feed),
            "/events": hosts.Events(self.site, feed),
            "/servers": listed,
            "/servers.csv": listed,
            "/servers.json": listed,
            "/servers/{uuid}": servers.Server(self.site),
            "/servers/{uuid}/decision": servers.Decision(self.site),
            "/what-if": what_if.WhatIf(self.site),
            "/capacity": counted,
            "/capacity.csv": counted,
            "/capacity.json": counted,
            "/about-me": about_me.AboutMe(self.site),
        }
        for path, resource in routes.items():
            self.app.add_route(path, resource)
        self.app.add_error_handler(Refused, self._refused)
        self.app.add_error_handler(Unavailable, self._silent)
        self.app.add_error_handler(falcon.HTTPError, self._failed)
        self.app.add_error_handler(Exception, self._broken)

    def _summary(self, present: HostMap) -> str:
        return self.site.render("live.html", summary=present.summary())

    async def _refused(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Refused, _params: Any
    ) -> None:
        """Show why a service has refused a request; sign the user out if the token is no longer valid."""
        if error.status == 401 and req.context.session is not None:
            self.sessions.end(self.site.guard.key_of(req))
            if is_fragment(req):
                resp.status = falcon.HTTP_401
                resp.set_header("Location", "/sign-in")
                return
            raise falcon.HTTPSeeOther("/sign-in")
        self._show(req, resp, error.status, error.message)

    async def _silent(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Unavailable, _params: Any
    ) -> None:
        self._show(req, resp, 503, error.message)

    async def _failed(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, error: falcon.HTTPError, _params: Any
    ) -> None:
        if error.headers:
            resp.set_headers(error.headers)
        self._show(req, resp, falcon.http_status_to_code(error.status), error.description or error.title or "")

    async def _broken(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception, _params: Any
    ) -> None:
        LOG.error("%s %s has failed", req.method, req.path, exc_info=error)
        self._show(req, resp, 500, "The dashboard has met an error. Its log has the details.")

    def _show(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, status: int, text: str) -> None:
        resp.status = falcon.code_to_http_status(status)
        resp.data, resp.text = None, None
        if getattr(req.context, "nonce", None) is None:
            req.context.nonce, req.context.session = "", None
        title = _TITLES.get(status, "This could not be done")
        self.site.show(req, resp, "fault.html", title=title, text=text)


class Start:
    """/: goes to the overview."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: redirect."""
        del req, resp
        raise falcon.HTTPSeeOther("/overview")


class HealthCheck:
    """/healthcheck: whether the process serves requests."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: 200."""
        del req
        resp.content_type, resp.text = "text/plain", "OK"
