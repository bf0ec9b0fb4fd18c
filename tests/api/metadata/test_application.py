# SPDX-License-Identifier: Apache-2.0
"""Requests for metadata, as a metadata agent forwards them."""

import hashlib
import hmac
import io
from collections.abc import Mapping
from typing import Any

import pytest

from kilonova.api.metadata.application import MetadataApi, with_metadata
from kilonova.errors import Unavailable
from kilonova.guest_metadata import files_of
from kilonova.guest_metadata.passwords import LARGEST
from kilonova.model.posted_password import PostResult
from support.drives import DRIVE, GUEST

SECRET = "between us"


class Service:
    """Metadata API with one server; counts how often its metadata are read."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reads = 0
        self.posted: list[str] = []
        self._error = error
        self.app = with_metadata(_others, MetadataApi(SECRET, self._files, self._post, 15))

    def _files(self, server: str, project: str) -> Mapping[str, bytes] | None:
        self.reads += 1
        if self._error is not None:
            raise self._error
        return files_of(GUEST, DRIVE) if (server, project) == (GUEST.uuid, GUEST.project_id) else None

    def _post(self, server: str, project: str, password: str) -> PostResult:
        if (server, project) != (GUEST.uuid, GUEST.project_id):
            return PostResult.ABSENT
        if not password:
            return PostResult.INVALID
        self.posted.append(password)
        return PostResult.STORED if len(self.posted) == 1 else PostResult.PRESENT

    def ask(self, path: str, method: str = "GET", sent: bytes = b"", **headers: str) -> tuple[int, str, bytes]:
        signed = {"X-Instance-ID": GUEST.uuid, "X-Tenant-ID": GUEST.project_id, **headers}
        signed.setdefault("X-Instance-ID-Signature", signature(signed["X-Instance-ID"]))
        environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in signed.items()}
        answered: list[Any] = []
        body = self.app(
            {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO(sent), **environ},
            lambda *answer: answered.append(answer),
        )
        (status, told) = answered[0]
        return int(status.split()[0]), dict(told)["Content-Type"], b"".join(body)


def _others(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("418 Other", [("Content-Type", "x")])
    return []


def signature(server: str) -> str:
    return hmac.new(SECRET.encode(), server.encode(), hashlib.sha256).hexdigest()


def test_metadata_of_the_server_that_the_agent_names() -> None:
    service = Service()
    assert service.ask("/latest/meta-data/hostname") == (200, "text/plain; charset=UTF-8", b"web.example.org")
    status, kind, body = service.ask("/openstack/latest/meta_data.json")
    assert (status, kind) == (200, "application/json; charset=UTF-8")
    assert GUEST.uuid.encode() in body
    assert service.ask("/latest/meta-data/hostname", "HEAD")[2] == b""
    assert service.ask("/latest/none")[0] == 404
    assert service.reads == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Instance-ID-Signature": signature("other")}, 403),
        ({"X-Instance-ID-Signature": "ü"}, 403),
        ({"X-Instance-ID-Signature": ""}, 400),
        ({"X-Tenant-ID": ""}, 400),
        ({"X-Tenant-ID": "other"}, 404),
        ({"X-Instance-ID": "other"}, 404),
        ({"X-Instance-ID": "other", "X-Instance-ID-Signature": signature(GUEST.uuid)}, 403),
    ],
)
def test_requests_that_are_refused(headers: dict[str, str], status: int) -> None:
    assert Service().ask("/latest/meta-data/hostname", **headers)[0] == status


def test_of_all_metadata_only_the_password_is_written() -> None:
    service = Service()
    assert service.ask("/openstack/latest/meta_data.json", "POST", b"x")[0] == 405
    assert service.ask("/openstack/latest/password", "PUT", b"x")[0] == 405
    assert service.ask("/openstack/latest/password", "POST", b"x" * (LARGEST + 1))[0] == 400
    assert service.ask("/openstack/latest/password", "POST", b"\xff")[0] == 400
    assert service.ask("/openstack/latest/password", "POST", b"x", **{"X-Tenant-ID": "other"})[0] == 404
    assert service.ask("/openstack/latest/password", "POST", b"x", **{"X-Instance-ID-Signature": "y"})[0] == 403
    assert service.posted == []
    assert [service.ask("/openstack/2013-04-04/password", "POST", b"abc=")[0] for _ in range(2)] == [200, 409]
    assert service.posted == ["abc=", "abc="]


def test_a_posted_password_is_read_at_once() -> None:
    service = Service()
    service.ask("/latest/")
    service.ask("/openstack/latest/password", "POST", b"abc=")
    service.ask("/latest/")
    assert service.reads == 2


def test_a_failure_is_told_and_not_remembered() -> None:
    service = Service(Unavailable("The database does not answer."))
    assert [service.ask("/latest/")[0] for _ in range(2)] == [503, 503]
    assert service.reads == 2


@pytest.mark.parametrize("path", ["/", "/compute", "/latestx", "/agents/latest"])
def test_other_paths_are_those_of_the_other_apis(path: str) -> None:
    answered: list[Any] = []
    Service().app({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda *answer: answered.append(answer))
    assert answered[0][0] == "418 Other"


def test_a_guest_does_not_reach_the_other_apis() -> None:
    assert Service().ask("/compute/v2.1/servers")[0] == 404
    assert Service().ask("/")[2].startswith(b"openstack\n1.0\n")
