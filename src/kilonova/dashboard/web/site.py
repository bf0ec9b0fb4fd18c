# SPDX-License-Identifier: Apache-2.0
"""What all pages share: the template environment, the session of a request, and calls with the token of its user."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import falcon.asgi
import jinja2
from markupsafe import Markup, escape

from kilonova.dashboard.upstream.cloud_api import COMPUTE, OPERATOR, Cloud
from kilonova.dashboard.web.guard import Guard
from kilonova.dashboard.web.sessions import Session, Sessions
from kilonova.records import dataclass

_TEMPLATES = Path(__file__).with_name("templates")
THEMES = ("light", "dark")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[_:-])")


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A page in the navigation. ``path``: without the first slash. ``operator``: whether only operators see it."""

    path: str
    label: str
    operator: bool = False


NAVIGATION = (
    NavigationEntry("overview", "Overview"),
    NavigationEntry("hosts", "Hosts", operator=True),
    NavigationEntry("servers", "Servers"),
    NavigationEntry("what-if", "What if", operator=True),
    NavigationEntry("capacity", "Capacity", operator=True),
    NavigationEntry("about-me", "About me"),
)


class Site:
    """The services of the handlers of all pages. ``static``: path of the files of this release."""

    def __init__(self, cloud: Cloud, sessions: Sessions, guard: Guard, static: str) -> None:
        self.cloud = cloud
        self.sessions = sessions
        self.guard = guard
        self._templates = _environment(static)

    def session(self, req: falcon.asgi.Request) -> Session:
        """Return the session of a request behind the guard."""
        session: Session = req.context.session
        return session

    def show(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, template: str, **values: Any) -> None:
        """Answer with a page or a fragment. ``values``: what its template needs."""
        resp.content_type = "text/html; charset=utf-8"
        theme = req.cookies.get("theme", "")
        session: Session | None = req.context.session
        signed_in = session if session is not None and session.is_complete else None
        resp.text = self._templates.get_template(template).render(
            nonce=req.context.nonce,
            me=signed_in,
            navigation=[each for each in NAVIGATION if signed_in and (signed_in.may_operate or not each.operator)],
            here=req.path.split("/")[1],
            theme=theme if theme in THEMES else "",
            **values,
        )

    def render(self, template: str, **values: Any) -> str:
        """Return a fragment that needs no request."""
        return self._templates.get_template(template).render(**values)

    async def compute(self, req: falcon.asgi.Request, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """GET a path of the compute API with the user's token. Raises: Refused, Unavailable."""
        return await self.cloud.call(self.session(req).login, "GET", COMPUTE, path, query=query)

    async def operator(
        self, req: falcon.asgi.Request, path: str, query: Mapping[str, Any] | None = None, *, body: Any = None
    ) -> Any:
        """GET a path of the operator API with the user's token, or POST a body. Raises: Refused, Unavailable."""
        method = "GET" if body is None else "POST"
        return await self.cloud.call(self.session(req).login, method, OPERATOR, path, query=query, body=body)


def is_fragment(req: falcon.asgi.Request) -> bool:
    """Return whether a script asks for a part of a page."""
    return bool(req.get_header("Fragment"))


def _environment(static: str) -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.globals["static"] = static
    found.filters.update(thousands="{:,}".format, breakable=_breakable, percent=_percent, amount=_amount)
    return found


def _breakable(name: str) -> Markup:
    """Let a long name break between its words."""
    return Markup(_BETWEEN_WORDS.sub("<wbr>", str(escape(name))))  # noqa: S704 - escaped


def _percent(pair: Sequence[float]) -> int:
    """Return the share of (used, capacity) in percent; 0 without capacity."""
    used, capacity = pair
    return round(100 * used / capacity) if capacity else 0


def _amount(value: float, resource_class: str) -> str:
    """Return an amount of a resource with its unit."""
    if resource_class == "MEMORY_MB":
        return f"{value / 1024:,.1f} GiB"
    return f"{value:,.0f} GiB" if resource_class == "DISK_GB" else f"{value:,.0f}"
