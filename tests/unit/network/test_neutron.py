# SPDX-License-Identifier: Apache-2.0
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session

from kilonova import deadline
from kilonova.errors import ConcurrentUpdate, Conflict, DeadlineExceeded, NotFound, OverQuota, Unavailable
from kilonova.identity.direct_connections import DirectConnections
from kilonova.logs.request_context import RequestContext, working_for
from kilonova.network.client import NetworkClient
from kilonova.network.neutron import Neutron
from support.fake_neutron import FakeNeutron
from support.fake_neutron.wsgi import NeutronOverHttp
from support.http_clients import serving


class Login(BaseAuthPlugin):
    """Logs in as Kilonova's user. Each ``invalidate`` gives another token."""

    def __init__(self, endpoint: str | None, token: str = "service") -> None:
        super().__init__()
        self.endpoint, self.token, self.logins = endpoint, token, 1

    def get_token(self, session: Session, **_: Any) -> str:
        return self.token

    def get_endpoint(self, session: Session, **_: Any) -> str | None:
        return self.endpoint

    def invalidate(self) -> bool:
        self.logins += 1
        self.token = "service"
        return True


class Scripted:
    """Answers with given responses, one after the other, then with {}. ``asked``: environ of each request."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.asked.append({**environ, "body": environ["wsgi.input"].read()})
        status, body = self.answers.pop(0) if self.answers else (200, {})
        start_response(f"{status} Whatever", [("X-Openstack-Request-Id", "req-theirs")])
        return [body if isinstance(body, bytes) else json.dumps(body).encode()]


def neutron(port: int, login: Login | None = None, *, timeout: float = 30, retries: int = 2) -> Neutron:
    login = login or Login(f"http://127.0.0.1:{port}/")
    session = Session(auth=login, timeout=timeout, session=DirectConnections(4))
    return Neutron(Adapter(session, service_type="network"), retries=retries, pause=lambda _: None)


@pytest.fixture
def scripted() -> Iterator[Callable[..., tuple[Scripted, Neutron]]]:
    """Return a function that starts a scripted service and returns it with a client."""
    started: list[Any] = []

    def start(*answers: tuple[int, Any], **options: Any) -> tuple[Scripted, Neutron]:
        app = Scripted(*answers)
        context = serving(app)
        server = context.__enter__()
        started.append(context)
        return app, neutron(server.port, **options)

    yield start
    for context in started:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("page", [0, 2])
def test_every_method_against_a_whole_service(page: int) -> None:
    fake = FakeNeutron()
    fake.user("demo-token", "demo")
    with serving(NeutronOverHttp(fake, page=page)) as server:
        client: NetworkClient = neutron(server.port)
        network = client.create("networks", {"name": "a b&c", "project_id": "demo"})["id"]
        client.create("subnets", {"network_id": network, "cidr": "10.1.0.0/24", "project_id": "demo"})
        ports = [client.create("ports", {"network_id": network}, token="demo-token")["id"] for _ in range(5)]
        assert [each["id"] for each in client.list("ports", token="demo-token")] == ports
        assert client.list("networks", name=["a b&c", "x"], shared=False, fields=["id"]) == [{"id": network}]
        assert client.list("networks", id=[]) == []
        assert client.show("ports", ports[0], token="demo-token")["mac_address"]
        port = client.update("ports", ports[0], {"name": "n"}, revision=1)
        assert (port["name"], port["revision_number"]) == ("n", 2)
        with pytest.raises(ConcurrentUpdate):
            client.update("ports", ports[0], {"name": "m"}, revision=1)
        binding = client.call("POST", f"/ports/{ports[0]}/bindings", {"binding": {"host": "h"}})
        assert binding["binding"]["status"] == "INACTIVE"
        assert client.call("DELETE", f"/ports/{ports[0]}/bindings/h") == {}
        group = client.create("security-groups", {"name": "web"}, token="demo-token")["id"]
        assert client.list("security-groups", id=[group])[0]["name"] == "web"
        client.delete("ports", ports[0])
        with pytest.raises(NotFound, match="could not be found") as caught:
            client.delete("ports", ports[0])
        assert caught.value.fields["type"]
        fake.set_quota("demo", port=1)
        with pytest.raises(OverQuota, match="Quota exceeded"):
            client.create("ports", {"network_id": network}, token="demo-token")
        with pytest.raises(Unavailable):
            client.list("ports", token="unknown")


def test_requests_of_users_carry_both_tokens_and_the_request_id(
    scripted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app, client = scripted((200, {"port": {}}), (200, {"port": {}}))
    with caplog.at_level(logging.DEBUG, "kilonova"), working_for(RequestContext("req-ours")):
        client.show("ports", "p/1?", token="user")
        client.show("ports", "p")
    first, second = app.asked
    assert (first["HTTP_X_AUTH_TOKEN"], first["HTTP_X_SERVICE_TOKEN"]) == ("user", "service")
    assert first["HTTP_X_OPENSTACK_REQUEST_ID"] == "req-ours"
    assert first["PATH_INFO"] == "/v2.0/ports/p/1?"
    assert (second["HTTP_X_AUTH_TOKEN"], second.get("HTTP_X_SERVICE_TOKEN")) == ("service", None)
    assert "GET /ports/p got status 200 from the network service: req-theirs" in caplog.text
    assert "user" not in caplog.text


def test_an_expired_token_of_the_service_user_is_renewed_once(scripted: Any) -> None:
    app, client = scripted(
        (401, {}), (200, {"port": {"id": "p"}}), (401, {}), (200, {"port": {"id": "p"}}), (401, {}), (401, {})
    )
    for token in ("user", None):
        assert client.create("ports", {}, token=token) == {"id": "p"}
    with pytest.raises(Unavailable, match="401"):
        client.create("ports", {}, token="expired")
    assert len(app.asked) == 6


def test_only_requests_that_change_nothing_are_repeated(scripted: Any) -> None:
    app, client = scripted((503, {}), (502, {}), (200, {"ports": []}))
    assert client.list("ports") == []
    assert len(app.asked) == 3
    for call in (
        lambda: client.create("ports", {}),
        lambda: client.update("ports", "p", {}),
        lambda: client.delete("ports", "p"),
        lambda: client.call("PUT", "/ports/p/bindings/h/activate"),
    ):
        app.asked.clear()
        app.answers = [(503, {})]
        with pytest.raises(Unavailable, match="503"):
            call()
        assert len(app.asked) == 1


def test_an_unreachable_service() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached"):
        neutron(port).list("ports")
    with pytest.raises(Unavailable, match="no endpoint"):
        neutron(port, Login(None)).list("ports")


def test_a_silent_service_is_left_after_the_time_limit_in_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = neutron(listener.getsockname()[1], timeout=0.3, retries=50)
        start = time.monotonic()
        with pytest.raises(Unavailable, match="cannot be reached"):
            client.list("ports")
        assert time.monotonic() - start < 3


def test_a_silent_service_holds_one_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = neutron(listener.getsockname()[1], timeout=1.0, retries=0)
        with pytest.raises(Unavailable, match="cannot be reached"):
            client.list("ports")
        waited: list[float] = []

        def ask() -> None:
            start = time.monotonic()
            with pytest.raises(Unavailable):
                client.list("ports")
            waited.append(time.monotonic() - start)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(waited)[6] < 0.9 <= sorted(waited)[7]


def test_the_deadline_of_a_request_ends_its_calls() -> None:
    over = deadline.Deadline(time.monotonic() + 0.2, deadline.nobody_left)
    with socket.create_server(("127.0.0.1", 0)) as listener, deadline.running(over):
        client = neutron(listener.getsockname()[1])
        start = time.monotonic()
        with pytest.raises(Unavailable):
            client.create("ports", {})
        assert time.monotonic() - start < 3
        with pytest.raises(DeadlineExceeded):
            client.list("ports")


PAGE = b"<html><body>Bad gateway</body></html>"
TRUNCATED = b'{"ports": [{"id": '


@pytest.mark.parametrize("content", [PAGE, b"", TRUNCATED, b"[1]", b"null"])
def test_a_response_without_neutrons_json_is_an_outage(scripted: Any, content: bytes) -> None:
    app, client = scripted((200, content), (200, content), (200, {"ports": [{"id": "p"}]}), retries=2)
    assert client.list("ports") == [{"id": "p"}]
    for read in (lambda: client.list("ports"), lambda: client.show("ports", "p")):
        app.answers, app.asked = [(200, content)] * 3, []
        with pytest.raises(Unavailable, match="without JSON"):
            read()
        assert len(app.asked) == 3


@pytest.mark.parametrize("content", [PAGE, b"", TRUNCATED, b"[1]", b"{}", b'{"port": null}'])
def test_a_change_whose_response_is_lost_is_sent_once(scripted: Any, content: bytes) -> None:
    app, client = scripted((201, content), (200, content))
    for change in (lambda: client.create("ports", {}), lambda: client.update("ports", "p", {})):
        app.asked.clear()
        with pytest.raises(Unavailable, match="answered without"):
            change()
        assert len(app.asked) == 1


def test_a_response_without_the_resource_is_an_outage(scripted: Any) -> None:
    _, client = scripted((200, {"networks": []}), (200, {"ports": {}}), (200, {}))
    for read in (lambda: client.list("ports"), lambda: client.list("ports"), lambda: client.show("ports", "p")):
        with pytest.raises(Unavailable, match="answered without"):
            read()


def test_a_response_that_breaks_off_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + TRUNCATED)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unavailable):
            neutron(listener.getsockname()[1], retries=2).list("ports")
        thread.join(10)


def test_answers_that_are_not_neutrons(scripted: Any) -> None:
    _, client = scripted((302, {}), (404, PAGE), (404, b""), retries=0)
    for match in ("302", "404", "404"):
        with pytest.raises(Unavailable, match=match):
            client.call("GET", "/ports")


def test_an_endpoint_may_end_with_the_version() -> None:
    with serving(app := Scripted((200, {"ports": []}))) as server:
        neutron(server.port, Login(f"http://127.0.0.1:{server.port}/networking/v2.0")).list("ports")
    assert app.asked[0]["PATH_INFO"] == "/networking/v2.0/ports"


def test_threads_share_a_client() -> None:
    fake = FakeNeutron()
    network = fake.make_network()
    with serving(NeutronOverHttp(fake), threads=8) as server:
        client = neutron(server.port)
        made: list[str] = []
        threads = [
            threading.Thread(target=lambda: made.append(client.create("ports", {"network_id": network})["id"]))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(made) == sorted(fake.store["ports"])


def test_a_conflict_has_neutrons_name_and_message(scripted: Any) -> None:
    fault = {"type": "IpAddressInUse", "message": "Unable to complete operation.", "detail": ""}
    _, client = scripted((409, {"NeutronError": fault}))
    with pytest.raises(Conflict, match="Unable to complete operation") as caught:
        client.create("ports", {})
    assert caught.value.fields == {"type": "IpAddressInUse"}


@pytest.mark.parametrize("resource_id", ["", ".", ".."])
def test_an_id_that_changes_the_path_is_not_found(scripted: Any, resource_id: str) -> None:
    service, client = scripted()
    with pytest.raises(NotFound):
        client.show("networks", resource_id)
    assert service.asked == []
