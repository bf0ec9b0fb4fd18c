# SPDX-License-Identifier: Apache-2.0
"""HTTP client for an API that runs in the test process."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import orjson

from kilonova.api.application import WsgiApp
from support.operator_document import check_answer

_ROOTS = {"compute": "/compute/v2.1", "placement": "/placement", "operator": "/operator/v1"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw) if self.raw else None

    @property
    def fault(self) -> tuple[str, str]:
        """Fault name and message of a compute API error."""
        ((name, content),) = self.body.items()
        assert content["code"] == self.status
        return name, content["message"]

    @property
    def error(self) -> Mapping[str, Any]:
        """Error object of a Placement API error."""
        (error,) = self.body["errors"]
        assert error["status"] == self.status
        return cast("Mapping[str, Any]", error)

    @property
    def detail(self) -> str:
        return str(self.error["detail"])

    @property
    def code(self) -> str:
        return str(self.error["code"]).removeprefix("placement.")


def send(app: WsgiApp, method: str, path: str, raw: bytes, headers: Mapping[str, str]) -> Answer:
    """Call the WSGI application with raw bytes as body. ``path``: URL-quoted, with its query string."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),  # WSGI decodes paths as Latin-1
        "QUERY_STRING": query,
        "SERVER_NAME": "cloud",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": io.StringIO(),
        "HTTP_HOST": "cloud",
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    seen: dict[str, Any] = {}

    def start(status: str, response_headers: list[tuple[str, str]], *_: object) -> None:
        seen["status"] = int(status.split(maxsplit=1)[0])
        seen["headers"] = {name.lower(): value for name, value in response_headers}

    answer = b"".join(app(environ, start))
    return Answer(seen["status"], seen["headers"], answer)


@dataclass(frozen=True)
class Client:
    """Client of one API as one user. ``version``: microversion; None omits the version header."""

    app: WsgiApp
    token: str = "admin"
    version: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    api: str = "compute"

    def at(self, version: str | None) -> "Client":
        return replace(self, version=version)

    def as_user(self, token: str, **headers: str) -> "Client":
        return replace(self, token=token, headers=headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request. A bytes body is sent unchanged; a header with an empty value is omitted."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"X-Auth-Token": self.token}
        if raw:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        if self.version is not None:
            sent["OpenStack-API-Version"] = f"{self.api} {self.version}"
        given = {**sent, **self.headers, **headers}
        # the last header of a name wins
        named = {name.upper().replace("-", "_"): value for name, value in given.items()}
        kept = {name: value for name, value in named.items() if value}
        answer = send(self.app, method, f"{_ROOTS[self.api]}{path}", raw, kept)
        if self.api == "operator":
            check_answer(method, f"/v1{path}", answer.status, answer.headers.get("content-type", ""), answer.raw)
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.send("DELETE", path, **headers)
