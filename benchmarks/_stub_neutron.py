# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - the methods have all parameters of the protocol
"""A ``NetworkClient`` that answers at once: one known network, ports without checks. It counts the requests.

``python -m benchmarks._stub_neutron PORT`` serves it by HTTP.
"""

import itertools
import json
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NETWORK, *_SUBNETS, _GROUP = (str(uuid.UUID(int=number, version=4)) for number in range(1, 5))


class StubNeutron:
    """A dual-stack network whose ports are plugged at once. ``requests``: method and kind → number of requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self._numbers = itertools.count(2)
        self._ports: dict[str, dict[str, Any]] = {}
        self._of_device: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def list(self, kind: str, *, token: str | None = None, **filters: Any) -> Sequence[Mapping[str, Any]]:
        self.requests[f"GET {kind}"] += 1
        match kind:
            case "networks":
                return [_network()]
            case "subnets":
                return [_subnet(v4=True), _subnet(v4=False)]
            case "security-groups":
                return [{"id": _GROUP, "name": "default"}]
            case "extensions":
                return [{"alias": "binding"}, {"alias": "security-group"}]
            case "ports" if "device_id" in filters:
                found = self._of_device.get(filters["device_id"], [])
            case "ports" if "id" in filters:
                found = filters["id"]
            case _:
                return []
        return [dict(self._ports[port_id]) for port_id in found if port_id in self._ports]

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Mapping[str, Any]:
        raise NotImplementedError(f"GET {kind}/{resource_id}")

    def create(self, kind: str, values: Mapping[str, Any], *, token: str | None = None) -> Mapping[str, Any]:
        self.requests[f"POST {kind}"] += 1
        with self._lock:
            return self._make(values)

    def update(
        self,
        kind: str,
        resource_id: str,
        values: Mapping[str, Any],
        *,
        token: str | None = None,
        revision: int | None = None,
    ) -> Mapping[str, Any]:
        self.requests[f"PUT {kind}"] += 1
        self._ports[resource_id].update(values)
        return dict(self._ports[resource_id])

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        self.requests[f"DELETE {kind}"] += 1
        with self._lock:
            port = self._ports.pop(resource_id)
            self._of_device[port["device_id"]].remove(resource_id)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> Mapping[str, Any]:
        kind = path.split("/")[1]
        self.requests[f"{method} {kind}"] += 1
        match kind:
            case "quotas":
                return {"quota": {"port": {"limit": -1, "used": len(self._ports), "reserved": 0}}}
            case "ports" if method == "POST" and body is not None:
                with self._lock:
                    return {"ports": [self._make(each) for each in body["ports"]]}
        raise NotImplementedError(f"{method} {path}")

    def _make(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        number, port_id = next(self._numbers), str(uuid.uuid4())
        high, low = divmod(number, 250)
        fixed_ips = [
            {"subnet_id": _SUBNETS[0], "ip_address": f"10.1.{high % 250}.{low + 1}"},
            {"subnet_id": _SUBNETS[1], "ip_address": f"fd00:1::{number:x}"},
        ]
        port = {
            "id": port_id,
            "name": "",
            "status": "ACTIVE",
            "mac_address": f"fa:16:3e:00:{high % 256:02x}:{low:02x}",
            "fixed_ips": fixed_ips,
            "security_groups": [_GROUP],
            "binding:vif_type": "ovs",
            "binding:vif_details": {"port_filter": True, "bridge_name": "br-int", "connectivity": "l2"},
            "binding:profile": {},
            "binding:vnic_type": "normal",
            "revision_number": 1,
            **values,
        }
        self._ports[port_id] = port
        self._of_device.setdefault(port["device_id"], []).append(port_id)
        return dict(port)


def _network() -> Mapping[str, Any]:
    return {
        "id": NETWORK,
        "name": "private",
        "project_id": "p",
        "subnets": list(_SUBNETS),
        "shared": True,
        "router:external": False,
        "port_security_enabled": True,
        "mtu": 1442,
        "provider:network_type": "geneve",
        "provider:physical_network": None,
    }


def _subnet(*, v4: bool) -> Mapping[str, Any]:
    return {
        "id": _SUBNETS[0 if v4 else 1],
        "network_id": NETWORK,
        "cidr": "10.1.0.0/16" if v4 else "fd00:1::/64",
        "ip_version": 4 if v4 else 6,
        "gateway_ip": "10.1.0.1" if v4 else "fd00:1::1",
        "enable_dhcp": True,
        "dns_nameservers": [],
        "host_routes": [],
        "ipv6_address_mode": None if v4 else "slaac",
    }


class _Handler(BaseHTTPRequestHandler):
    """HTTP front of a stub."""

    protocol_version = "HTTP/1.1"
    stub = StubNeutron()

    def do_GET(self) -> None:
        parts = urlsplit(self.path.removeprefix("/v2.0"))
        kind = parts.path.strip("/")
        if "/" in kind:
            self._answer(self.stub.call("GET", parts.path))
        else:
            filters = {name: values if name == "id" else values[0] for name, values in parse_qs(parts.query).items()}
            self._answer({kind.replace("-", "_"): self.stub.list(kind, **filters)})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix("/v2.0")
        one = body.get("port")
        self._answer(self.stub.call("POST", path, body) if one is None else {"port": self.stub.create("ports", one)})

    def do_DELETE(self) -> None:
        self.stub.delete("ports", self.path.rpartition("/")[2])
        self.wfile.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _answer(self, body: Any) -> None:
        raw = json.dumps(body).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        self.wfile.write(head.encode() + raw)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
