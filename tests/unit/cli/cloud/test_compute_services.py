# SPDX-License-Identifier: Apache-2.0
"""Hosts are disabled and enabled together, or not at all."""

from typing import Any

import pytest

from kilonova.cli.cloud.compute_services import disable, enable
from kilonova.errors import InvalidRequest


class Cloud:
    """A cloud with these hosts and the statuses of their services."""

    def __init__(self, **statuses: str) -> None:
        self.statuses = statuses
        self.reasons: dict[str, str | None] = {}

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> dict[str, Any]:
        assert (service, path, version, query["binary"]) == ("compute", "/os-services", "2.53", "nova-compute")
        host = query["host"]
        found = [{"id": host, "host": host, "status": self.statuses[host]}] if host in self.statuses else []
        return {"services": found}

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> None:
        assert (method, service, version) == ("PUT", "compute", "2.53")
        host, body = path.rpartition("/")[2], arguments["json"]
        self.statuses[host], self.reasons[host] = body["status"], body.get("disabled_reason")


def test_disabled_hosts_keep_their_reason() -> None:
    cloud = Cloud(a="enabled", b="disabled")
    disable(cloud, ["a", "b"], "new memory")
    assert (cloud.statuses, cloud.reasons) == ({"a": "disabled", "b": "disabled"}, {"a": "new memory"})
    assert enable(cloud, ["a", "b"]) == ["a", "b"]
    assert set(cloud.statuses.values()) == {"enabled"}


def test_an_unknown_host_changes_nothing() -> None:
    cloud = Cloud(a="enabled")
    with pytest.raises(InvalidRequest, match="nowhere"):
        disable(cloud, ["a", "nowhere"], "new memory")
    assert cloud.statuses == {"a": "enabled"}
