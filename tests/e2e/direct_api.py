# SPDX-License-Identifier: Apache-2.0
"""Direct requests to the compute API of a running cloud, without a client."""

import time
from typing import Any

from support.supervisor import Supervisor


class DirectApi:
    """Compute API as one user. Direct requests avoid the start-up time of clients."""

    def __init__(self, supervisor: Supervisor, cloud: str = "kilonova-demo") -> None:
        self._root = f"http://127.0.0.1:{supervisor.ports[0]}/compute/v2.1"
        self._servers = f"{self._root}/servers"
        self._session = supervisor.session(cloud)
        self._session.headers["OpenStack-API-Version"] = "compute 2.100"

    def server(self, uuid: str) -> dict[str, Any]:
        shown: dict[str, Any] = self._session.get(f"{self._servers}/{uuid}", timeout=30).json()["server"]
        return shown

    def get(self, path: str) -> Any:
        """Send a GET request to the compute API."""
        return self._session.get(f"{self._root}{path}", timeout=30)

    def act(self, uuid: str, body: Any) -> None:
        """Start an action of a server."""
        assert self._session.post(f"{self._servers}/{uuid}/action", json=body, timeout=30).status_code == 202

    def until(self, uuid: str, status: str) -> None:
        """Wait until a server has a status and no task."""
        deadline = time.monotonic() + 30
        while (found := self.server(uuid))["status"] != status or found["OS-EXT-STS:task_state"] is not None:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
