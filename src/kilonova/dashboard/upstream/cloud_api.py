# SPDX-License-Identifier: Apache-2.0
"""Client of the cloud's APIs: Keystone for signing in, and the services of the catalogue with a user's own token."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx

from kilonova.errors import KilonovaError, Unavailable
from kilonova.records import dataclass

COMPUTE, OPERATOR = "compute", "kilonova"
#: Microversion of the compute API that pages are made from.
COMPUTE_VERSION = "2.96"
_LONGEST_ANSWER_S, _CONNECT_S = 30.0, 5.0
_LONGEST_MESSAGE = 500


class Refused(KilonovaError):
    """A service has refused a request. ``status``: the HTTP status of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Project:
    """A project that a user may choose."""

    id: str
    name: str
    domain: str


@dataclass(frozen=True, slots=True)
class Login:
    """A token of Keystone, and whose it is. ``project``: None if the token is unscoped.

    ``endpoints``: service type → public URL.
    """

    token: str
    user_id: str
    user_name: str
    project: Project | None
    roles: tuple[str, ...]
    expires_at: datetime
    endpoints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a user types to sign in. ``project``: name or id of a project of the same domain; empty: to be chosen."""

    name: str
    password: str
    domain: str
    project: str = ""


class Cloud:
    """Keystone at ``auth_url``, and the services of ``region`` in its catalogue; None: of any region."""

    def __init__(self, http: httpx.AsyncClient, auth_url: str, region: str | None = None) -> None:
        self._http = http
        self._auth_url = f"{auth_url.rstrip('/').removesuffix('/v3')}/v3"
        self._region = region

    # --- signing in ---------------------------------------------------------------------------------------------------

    async def sign_in(self, credentials: Credentials) -> Login:
        """Return a token for a project, or an unscoped one if none is given. Raises: Refused, Unavailable."""
        domain = {"name": credentials.domain}
        user = {"name": credentials.name, "password": credentials.password, "domain": domain}
        scope: Any = "unscoped"
        if credentials.project:
            scope = {"project": {"name": credentials.project, "domain": domain}}
        return await self._login({"methods": ["password"], "password": {"user": user}}, scope)

    async def sign_in_with_token(self, token: str) -> Login:
        """Return a login with the scope of a token. Raises: Refused, Unavailable."""
        answer = await self._ask("GET", f"{self._auth_url}/auth/tokens", token, headers={"X-Subject-Token": token})
        return self._read(answer.json(), token)

    async def sign_in_with_application_credential(self, uuid: str, secret: str) -> Login:
        """Return a login with the scope of an application credential. Raises: Refused, Unavailable."""
        given = {"id": uuid, "secret": secret}
        return await self._login({"methods": ["application_credential"], "application_credential": given}, None)

    async def projects(self, login: Login) -> Sequence[Project]:
        """Return the projects that a user may choose. Raises: Refused, Unavailable."""
        answer = await self._ask("GET", f"{self._auth_url}/auth/projects", login.token)
        found = answer.json()["projects"]
        return [Project(each["id"], each["name"], each["domain_id"]) for each in found if each.get("enabled", True)]

    async def choose(self, login: Login, project_id: str) -> Login:
        """Return a login for a project. Raises: Refused, Unavailable."""
        identity = {"methods": ["token"], "token": {"id": login.token}}
        return await self._login(identity, {"project": {"id": project_id}})

    async def revoke(self, login: Login) -> None:
        """Make a token invalid. Raises: Refused, Unavailable."""
        headers = {"X-Subject-Token": login.token}
        await self._ask("DELETE", f"{self._auth_url}/auth/tokens", login.token, headers=headers)

    async def _login(self, identity: Mapping[str, Any], scope: Any) -> Login:
        auth = {"identity": identity, **({} if scope is None else {"scope": scope})}
        answer = await self._ask("POST", f"{self._auth_url}/auth/tokens", None, json={"auth": auth})
        return self._read(answer.json(), answer.headers["X-Subject-Token"])

    def _read(self, body: Mapping[str, Any], token: str) -> Login:
        told = body["token"]
        project = told.get("project")
        return Login(
            token=token,
            user_id=told["user"]["id"],
            user_name=told["user"]["name"],
            project=None if project is None else Project(project["id"], project["name"], project["domain"]["name"]),
            roles=tuple(role["name"] for role in told.get("roles", ())),
            expires_at=datetime.fromisoformat(told["expires_at"]).astimezone(UTC),
            endpoints={
                service["type"]: endpoint["url"].rstrip("/")
                for service in told.get("catalog", ())
                for endpoint in service["endpoints"]
                if endpoint["interface"] == "public" and self._region in {None, endpoint["region"]}
            },
        )

    # --- services -----------------------------------------------------------------------------------------------------

    async def call(
        self,
        login: Login,
        method: str,
        service: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        version: str = COMPUTE_VERSION,
    ) -> Any:
        """Send a request with a user's token; return the decoded answer, or None if it is empty.

        Raises: Refused, Unavailable.
        """
        endpoint = login.endpoints.get(service)
        if endpoint is None:
            raise Unavailable(f"The cloud's catalogue has no service of type {service}.")
        headers = {"OpenStack-API-Version": f"compute {version}"} if service == COMPUTE else {}
        answer = await self._ask(method, f"{endpoint}{path}", login.token, headers=headers, params=query, json=body)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise Unavailable(f"The {service} service has sent no JSON.") from error

    async def _ask(
        self, method: str, url: str, token: str | None, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        given = {**(headers or {}), **({} if token is None else {"X-Auth-Token": token})}
        try:
            answer = await self._http.request(method, url, headers=given, **more)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{httpx.URL(self._auth_url).host}: the cloud does not answer.") from error
        if answer.status_code >= 500:
            raise Unavailable(_message(answer))
        if answer.status_code >= 400:
            raise Refused(answer.status_code, _message(answer))
        return answer


def new_client(*, verify: Any = True) -> httpx.AsyncClient:
    """Return an HTTP client without redirects, proxies or cookies. ``verify``: TLS context, or whether to verify."""
    return httpx.AsyncClient(
        verify=verify,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(_LONGEST_ANSWER_S, connect=_CONNECT_S),
        limits=httpx.Limits(max_connections=50, max_keepalive_connections=20),
    )


def _message(answer: httpx.Response) -> str:
    """Return the message of a fault in Nova's or Keystone's format, or the beginning of the answer."""
    try:
        body = answer.json()
        fault = next(iter(body.values()))
        return str(fault["message"])[:_LONGEST_MESSAGE]
    except (ValueError, AttributeError, StopIteration, TypeError, KeyError):
        return " ".join(answer.text[:_LONGEST_MESSAGE].split()) or f"The service answered {answer.status_code}."
