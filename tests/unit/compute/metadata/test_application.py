# SPDX-License-Identifier: Apache-2.0
"""Requests of guests, as the metadata service of a host forwards them to the agent."""

import io
from typing import Any

import pytest

from kilonova.compute.metadata.answers import MetadataAnswers
from kilonova.compute.metadata.application import MetadataApplication
from kilonova.compute.metadata.throttle import Throttle
from kilonova.errors import Unavailable
from kilonova.guest_metadata import files_of
from kilonova.guest_metadata.passwords import LARGEST
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import Answer, AskMetadata, GuestMetadata, PasswordPosted, PostPassword, Question
from kilonova.model.posted_password import PostResult
from support.drives import DRIVE, GUEST

ADDRESS = "10.1.0.9"
GUEST_HEADERS = {"HTTP_X_KILONOVA_NETWORK": "net", "HTTP_X_KILONOVA_ADDRESS": ADDRESS, "HTTP_X_KILONOVA_MAC": "m"}


class Host:
    """Agent of a host with one guest. ``posted``: result for a password."""

    def __init__(self, posted: PostResult = PostResult.STORED, *, fails: bool = False, requests: int = 100) -> None:
        self.posted, self.fails = posted, fails
        self.asked: list[Question] = []
        bus = LocalBus()
        bus.serve_conductor(lambda _: None, lambda question, _: self._answer(question))
        self.app = MetadataApplication(MetadataAnswers("node1", bus, 15), Throttle(0.0, requests))

    def _answer(self, question: Question) -> Answer:
        self.asked.append(question)
        if self.fails:
            raise Unavailable("The database does not answer.")
        match question:
            case PostPassword():
                return PasswordPosted(self.posted)
            case AskMetadata(network_id="net", address="10.1.0.9"):
                return GuestMetadata.of(files_of(GUEST, DRIVE))
        return GuestMetadata(found=False)

    def ask(
        self, path: str, method: str = "GET", sent: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO(sent)}
        answered: list[Any] = []
        body = self.app({**environ, **(headers or GUEST_HEADERS)}, lambda *answer: answered.append(answer))
        (status, told) = answered[0]
        return int(status.split()[0]), dict(told), b"".join(body)


def test_a_guest_reads_what_its_config_drive_has() -> None:
    host = Host()
    expected = files_of(GUEST, DRIVE)
    for path in ("openstack/latest/network_data.json", "openstack/latest/vendor_data2.json", "ec2/latest/user-data"):
        served = f"/{path}" if path.startswith("openstack") else "/latest/user-data"
        assert host.ask(served)[0::2] == (200, expected[path])
    status, headers, body = host.ask("/openstack/latest/meta_data.json")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=UTF-8")
    assert GUEST.uuid.encode() in body
    assert host.ask("/latest/meta-data/hostname")[0::2] == (200, b"web.example.org")
    assert host.ask("/latest/meta-data/hostname", "HEAD")[0::2] == (200, b"")
    assert host.ask("/latest/none")[0] == 404
    assert len(host.asked) == 1


def test_who_asks_is_decided_by_the_forwarder_alone() -> None:
    host = Host()
    assert host.ask("/latest/", **{**GUEST_HEADERS, "HTTP_X_KILONOVA_NETWORK": "other"})[0] == 404
    forged = {"HTTP_X_INSTANCE_ID": GUEST.uuid, "HTTP_X_TENANT_ID": "wonder", "HTTP_X_FORWARDED_FOR": ADDRESS}
    assert host.ask("/latest/", **{**GUEST_HEADERS, "HTTP_X_KILONOVA_ADDRESS": "10.1.0.8", **forged})[0] == 404
    assert host.ask("/latest/", **forged)[0] == 400


@pytest.mark.parametrize(
    ("result", "status"),
    [(PostResult.STORED, 200), (PostResult.PRESENT, 409), (PostResult.ABSENT, 404), (PostResult.INVALID, 400)],
)
def test_a_guest_posts_a_password(result: PostResult, status: int) -> None:
    host = Host(result)
    assert host.ask("/openstack/latest/password", "POST", b"abc=")[0] == status
    (asked,) = host.asked
    assert isinstance(asked, PostPassword)
    assert (asked.host, asked.network_id, asked.address, asked.password) == ("node1", "net", ADDRESS, "abc=")


def test_nothing_else_is_written() -> None:
    host = Host()
    assert host.ask("/openstack/latest/meta_data.json", "POST", b"x")[0] == 405
    assert host.ask("/openstack/latest/password", "DELETE")[0] == 405
    assert host.asked == []
    host.ask("/openstack/latest/password", "POST", b"x" * (LARGEST + 1))
    (asked,) = host.asked
    assert isinstance(asked, PostPassword)
    assert asked.password == ""  # which the control plane refuses


def test_a_guest_that_asks_too_often_is_told_to_wait_and_others_are_answered() -> None:
    host = Host(requests=3)
    assert [host.ask("/latest/")[0] for _ in range(4)] == [200, 200, 200, 429]
    status, headers, _ = host.ask("/latest/", **{**GUEST_HEADERS, "HTTP_X_KILONOVA_MAC": "other"})
    assert (status, headers["Retry-After"]) == (429, "1")
    assert host.ask("/latest/", **{**GUEST_HEADERS, "HTTP_X_KILONOVA_ADDRESS": "10.1.0.8"})[0] == 404


def test_a_control_plane_that_is_away_is_a_503() -> None:
    status, headers, _ = Host(fails=True).ask("/latest/")
    assert (status, headers["Retry-After"]) == (503, "1")
