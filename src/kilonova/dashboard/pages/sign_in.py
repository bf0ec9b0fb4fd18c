# SPDX-License-Identifier: Apache-2.0
"""Signing in with a password, a token or an application credential; the choice of a project; signing out."""

import logging
from collections.abc import Mapping
from contextlib import suppress

import falcon
import falcon.asgi

from kilonova.dashboard.upstream.cloud_api import OPERATOR, Credentials, Login, Refused
from kilonova.dashboard.web.attempts import Attempts
from kilonova.dashboard.web.site import Site
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)
_START = "/overview"
WRONG = "Keystone does not know this name with this password."


class SignIn:
    """/sign-in. ``attempts``: throttle. ``default_domain``: what the form proposes."""

    def __init__(self, site: Site, attempts: Attempts, default_domain: str) -> None:
        self._site = site
        self._attempts = attempts
        self._default_domain = default_domain

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the form."""
        self._show(req, resp, {"to": own_path(req.get_param("to"))}, "")

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """POST: sign in, and go to the page that was asked for, or to the choice of a project."""
        form = await form_of(req)
        address = req.remote_addr
        account = self._account_of(form, address)
        wait_s = self._attempts.wait_s(account, address)
        if wait_s > 0:
            resp.status = falcon.HTTP_429
            resp.set_header("Retry-After", str(round(wait_s) + 1))
            minutes = round(wait_s / 60) + 1
            self._show(req, resp, form, f"Too many attempts. Try again in {minutes} minutes.")
            return
        try:
            login = await self._login(form)
        except Refused as error:
            self._attempts.fail(account, address)
            LOG.info("Sign-in of %r from %s was refused: %s", account, address, error.message)
            resp.status = falcon.HTTP_401
            self._show(req, resp, form, WRONG if error.status == 401 else error.message)
            return
        self._attempts.succeed(account)
        await self._begin(req, resp, login, own_path(form.get("to")))

    async def _login(self, form: Mapping[str, str]) -> Login:
        cloud = self._site.cloud
        match form.get("how"):
            case "token":
                return await cloud.sign_in_with_token(form.get("token", ""))
            case "application-credential":
                return await cloud.sign_in_with_application_credential(form.get("id", ""), form.get("secret", ""))
            case _:
                domain = form.get("domain", "") or self._default_domain
                name, password, project = (form.get(field, "") for field in ("user", "password", "project"))
                return await cloud.sign_in(Credentials(name, password, domain, project))

    def _account_of(self, form: Mapping[str, str], address: str) -> str:
        """Return what is throttled. Tokens name no account; names are equal for Keystone in upper and lower case."""
        if form.get("how") == "token":
            return f"tokens from {address}"
        if form.get("how") == "application-credential":
            return f"application credential {form.get('id', '')}"
        domain = form.get("domain", "") or self._default_domain
        return f"{domain.strip()}/{form.get('user', '').strip()}".casefold()

    async def _begin(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, login: Login, to: str) -> None:
        projects = () if login.project else tuple(await self._site.cloud.projects(login))
        if len(projects) == 1:
            login = await self._site.cloud.choose(login, projects[0].id)
        elif login.project is None and not projects:
            resp.status = falcon.HTTP_403
            self._show(req, resp, {}, "You are a member of no project. Ask an administrator to add you to one.")
            return
        complete = login.project is not None
        operates = complete and await may_operate(self._site, login)
        self._site.sessions.end(self._site.guard.key_of(req))  # an earlier key never becomes valid by a sign-in
        key = self._site.sessions.begin(login, projects, may_operate=operates)
        self._site.guard.give_key(resp, key)
        LOG.info("User %s has signed in from %s", login.user_id, req.remote_addr)
        raise falcon.HTTPSeeOther(to if complete else "/sign-in/project")

    def _show(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, form: Mapping[str, str], error: str) -> None:
        shown = {name: form.get(name, "") for name in ("how", "user", "domain", "project", "id", "to")}
        shown["domain"] = shown["domain"] or self._default_domain
        self._site.show(req, resp, "sign_in.html", form=shown, error=error)


class ChooseProject:
    """/sign-in/project: the choice of a project, at the sign-in and later."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the projects of the user."""
        session = self._site.session(req)
        projects = session.projects or tuple(await self._site.cloud.projects(session.login))
        present = session.login.project
        self._site.show(
            req, resp, "choose_project.html", projects=projects, present=present.id if present is not None else ""
        )

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """POST: a new session for the chosen project; the former session ends."""
        form, session = await form_of(req), self._site.session(req)
        login = await self._site.cloud.choose(session.login, form.get("project", ""))
        operates = await may_operate(self._site, login)
        projects = session.projects
        self._site.sessions.end(self._site.guard.key_of(req))
        self._site.guard.give_key(resp, self._site.sessions.begin(login, projects, may_operate=operates))
        raise falcon.HTTPSeeOther(_START)


class SignOut:
    """/sign-out: ends the session of this browser, or all sessions of its user."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """POST: end the sessions, and revoke their tokens."""
        form, session = await form_of(req), self._site.session(req)
        ended = [session]
        if form.get("everywhere"):
            ended = self._site.sessions.end_all_of(session.login.user_id)
        else:
            self._site.sessions.end(self._site.guard.key_of(req))
        for each in ended:
            with suppress(Refused, Unavailable):
                await self._site.cloud.revoke(each.login)
        LOG.info("User %s has signed out of %d sessions", session.login.user_id, len(ended))
        self._site.guard.take_key(resp)
        raise falcon.HTTPSeeOther("/sign-in")


async def may_operate(site: Site, login: Login) -> bool:
    """Return whether the operator API answers a user. Raises: Unavailable."""
    if OPERATOR not in login.endpoints:
        return False
    try:
        await site.cloud.call(login, "GET", OPERATOR, "/hosts", query={"limit": 1})
    except Refused:
        return False
    return True


async def form_of(req: falcon.asgi.Request) -> dict[str, str]:
    """Return the fields of a form; of a repeated field, the last value. Raises: HTTPBadRequest."""
    if not req.content_length:
        return {}
    if req.content_type is None or not req.content_type.startswith("application/x-www-form-urlencoded"):
        raise falcon.HTTPUnsupportedMediaType(description="Send a form.")
    found = await req.get_media({})
    return {name: value if isinstance(value, str) else value[-1] for name, value in found.items()}


def own_path(text: str | None) -> str:
    """Return a path of this site; that of the first page for any other address, or for none."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\", "/sign-")) or not text.isprintable():
        return _START
    return text
