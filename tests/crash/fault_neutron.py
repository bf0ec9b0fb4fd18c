# SPDX-License-Identifier: Apache-2.0
"""Neutron of the fault test: it answers late, twice, wrongly or not at all, and sends its events to the cloud.

It holds its state in this process, which no fault kills, as a Neutron holds it in its database. Control processes reach
it through a proxy, so for them it can be dead or silent; a request that waits in the proxy is carried out even if its
caller is dead by then.
"""

import http.client
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from crash.http_load import Call, Networks
from kilonova.errors import NotFound
from support.fake_neutron import FakeNeutron, Fault
from support.fake_neutron.wsgi import NeutronOverHttp
from support.http_clients import serving
from support.networks import OF_USER
from support.proxies import Proxy

_THREADS = 8
_USER_PORTS = 12
_PLUG_EVERY_S = 0.2
#: Time after a fault in which requests arrive that were sent during it, in seconds.
_LATER_S = 3.0
#: Faults of a single request, with their relative frequencies. Most refusals (409) end the operation of a user.
_FAULTS: Mapping[Fault, int] = {Fault.LOST: 4, Fault.LATE: 6, Fault.TWICE: 3, Fault.ERROR: 4, Fault.CONFLICT: 1}


class FaultyNeutron:
    """Network service, as a WSGI application behind ``proxy``.

    ``share``: share of the requests with a fault of their own. ``delay_s``: time before each request is carried out, as
    by a slow service. ``unsure``: ports whose creation may not have been answered, or was carried out twice, so that
    their server need not know them. ``refused``: ports of which a change was refused. ``removed``: stray ports that
    an operator has removed. ``networks``: what the clients use.
    """

    def __init__(self, seed: str) -> None:
        self.fake = FakeNeutron(plugs_at_once=False)
        self.fake.user("admin", "admin", is_admin=True)
        private = self.fake.make_network("private", "admin", v4="10.1.0.0/16")
        other = self.fake.make_network("other", "admin", v4="10.2.0.0/16")
        self.of_user = tuple(self.fake.make_port(other, "admin", name=OF_USER) for _ in range(_USER_PORTS))
        self.networks = Networks((private, other), self.of_user)
        self.share = 0.0
        self.delay_s = 0.0
        self.unsure: set[str] = set()
        self.refused: set[str] = set()
        self.removed: set[str] = set()
        self.lost_events = 0
        self._in_trouble_until = 0.0
        self._rng, self._plug_rng = random.Random(f"network {seed}"), random.Random(f"plug {seed}")
        self._inner = NeutronOverHttp(self.fake, service_token="notused")
        self._servers = ExitStack()
        self._stopped = threading.Event()
        self._unsent: list[Mapping[str, str]] = []
        self._sending = threading.Lock()

    def start(self, call: Call) -> None:
        """Serve, plug bound ports after a while, and send events. ``call``: sends a request to the compute API."""
        self.proxy = Proxy(self._servers.enter_context(serving(self, threads=_THREADS)).port)
        self._servers.callback(self.proxy.close)
        self.fake.send_events = self._note
        for work in (self._plug, lambda: self._send(call)):
            thread = threading.Thread(target=self._repeat, args=(work,), daemon=True)
            thread.start()
            self._servers.callback(thread.join)
        self._servers.callback(self._stopped.set)

    def summary(self) -> str:
        calls = self.fake.faults.count()
        return (
            f"{calls} calls of the network service, {len(self.unsure)} ports of unanswered ones, "
            f"{self.lost_events} events lost, {len(self.removed)} stray ports removed"
        )

    def stop(self) -> None:
        self._servers.close()

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if self.delay_s:
            time.sleep(self._rng.uniform(0.5, 1.5) * self.delay_s)
        if environ["REQUEST_METHOD"] == "GET":
            return self._inner(environ, start_response)
        with self.fake._lock:
            fault = self._fault()
            before = set(self.fake.store["ports"])
            if fault is Fault.CONFLICT:
                self.refused.update(part for part in environ["PATH_INFO"].split("/") if part in before)
            answer = self._inner(environ, start_response)
            if fault is not None or time.monotonic() < self._in_trouble_until:
                self.unsure |= self.fake.store["ports"].keys() - before
        return answer

    def _fault(self) -> Fault | None:
        """Plan the fault of the next request, if it has one."""
        if self._rng.random() >= self.share:
            return None
        (fault,) = self._rng.choices(list(_FAULTS), list(_FAULTS.values()))
        self.fake.faults.plan("", fault)
        return fault

    def begin_trouble(self) -> None:
        """Note that callers may miss the answers of requests from now on."""
        self._in_trouble_until = math.inf

    def end_trouble(self) -> None:
        self._in_trouble_until = time.monotonic() + _LATER_S

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._stopped.wait(_PLUG_EVERY_S):
            work()

    def _plug(self) -> None:
        """Plug some of the ports that are bound and not active."""
        with self.fake._lock:
            ports = list(self.fake.store["ports"].values())
            down = [port["id"] for port in ports if port["status"] == "DOWN" and port["binding:vif_type"] == "ovs"]
        for port in down:
            if self._plug_rng.random() < 0.5:
                with suppress(NotFound):  # it was deleted meanwhile
                    self.fake.plug(port)

    def _note(self, event: Mapping[str, str]) -> None:
        with self._sending:
            self._unsent.append(event)

    def _send(self, call: Call) -> None:
        """Send the events once; they are lost if the control process does not answer."""
        with self._sending:
            events, self._unsent = self._unsent, []
        if not events:
            return
        try:
            call("POST", "/os-server-external-events", {"events": events})
        except (OSError, http.client.HTTPException):
            self.lost_events += len(events)
