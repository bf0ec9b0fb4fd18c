# SPDX-License-Identifier: Apache-2.0
"""A network service that hangs or refuses connections: builds wait, lists go on, and API threads stay free."""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from kilonova.cli.wiring.core import Parts
from kilonova.network.neutron import Neutron
from support.control import IMAGE, Control, NewControl
from support.fake_neutron import FakeNeutron
from support.fake_neutron.wsgi import NeutronOverHttp
from support.http_clients import serving
from support.waiting import wait_until

THREADS = 4


class Gate:
    """A network service by HTTP that hangs while ``hangs`` is true for a request: ``hangs`` gets method and path."""

    def __init__(self, app: NeutronOverHttp) -> None:
        self._app = app
        self.hangs: Callable[[str, str], bool] = lambda _method, _path: False
        self.reached = 0

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        while self.hangs(environ["REQUEST_METHOD"], environ["PATH_INFO"]):
            self.reached += 1
            time.sleep(0.05)
        return self._app(environ, start_response)

    def open(self) -> None:
        self.hangs = lambda _method, _path: False


class Cloud:
    """A cloud whose API is served by ``THREADS`` threads, with a network service by HTTP."""

    def __init__(self, control: Control, gate: Gate, network: str, port: int) -> None:
        self.control, self.gate, self.network, self.port = control, gate, network, port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any, float]:
        """Return status and body of a response, and the seconds until it came."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"X-Auth-Token": "alice:wonder", "Content-Type": "application/json"}
        headers["OpenStack-API-Version"] = "compute 2.100"
        connection.request(method, f"/compute/v2.1{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content) if content else None, time.monotonic() - began

    def create(self) -> tuple[int, Any, float]:
        server = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": self.network}]}
        return self.ask("POST", "/servers", {"server": server})

    def addresses(self) -> tuple[list[int], float]:
        """Return the number of addresses of each server, and the seconds that the list took."""
        status, body, seconds = self.ask("GET", "/servers/detail")
        assert status == 200
        return [sum(map(len, server["addresses"].values())) for server in body["servers"]], seconds


@pytest.fixture
def cloud(new_control: NewControl, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Cloud with one server. The parameter is the number of seconds that a call to the network service may take."""
    fake = FakeNeutron()
    fake.user("alice:wonder", "wonder")
    network = fake.make_network(project_id="wonder")
    gate = Gate(NeutronOverHttp(fake))
    with serving(gate, threads=48) as service:
        session = Session(auth=Token(f"http://127.0.0.1:{service.port}/", "service"), timeout=request.param)
        client = Neutron(Adapter(session, service_type="network"), retries=1)
        control = new_control(
            parts=Parts(network=client, pause_s=lambda _tries: 0.1), more=f"[api]\nthreads = {THREADS}\n"
        )
        with serving(control.process.application, threads=THREADS) as api:
            cloud = Cloud(control, gate, network, api.port)
            status, body, _ = cloud.create()
            assert status == 202, body
            control.settle()
            yield cloud
            gate.open()
            control.settle()


@pytest.mark.parametrize("cloud", [10.0], indirect=True)
def test_lists_are_served_while_the_network_service_hangs(cloud: Cloud) -> None:
    cloud.gate.hangs = lambda _method, _path: True
    with ThreadPoolExecutor(16) as pool:
        creates = [pool.submit(cloud.create) for _ in range(16)]
        wait_until(lambda: cloud.gate.reached > 0, "a request hangs")
        for _ in range(5):
            addresses, seconds = cloud.addresses()
            assert addresses == [1]
            assert seconds < 7
        answers = [create.result() for create in creates]
    assert {status for status, _, _ in answers} == {503}
    cloud.gate.open()
    wait_until(lambda: cloud.create()[0] == 202, "the network service is used again")


@pytest.mark.parametrize("cloud", [1.0], indirect=True)
def test_a_build_that_has_begun_waits_and_continues(cloud: Cloud) -> None:
    cloud.gate.hangs = lambda method, path: method == "POST" and path.endswith("/ports")
    status, body, _ = cloud.create()
    assert status == 202
    uuid = body["server"]["id"]
    time.sleep(2)  # more than one call fails
    assert cloud.ask("GET", f"/servers/{uuid}")[1]["server"]["status"] == "BUILD"
    assert cloud.addresses()[0] in ([0, 1], [1, 0])
    cloud.gate.open()
    cloud.control.settle()
    assert cloud.ask("GET", f"/servers/{uuid}")[1]["server"]["status"] == "ACTIVE"
    assert cloud.addresses()[0] == [1, 1]
