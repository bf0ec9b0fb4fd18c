# SPDX-License-Identifier: Apache-2.0
"""Access to Placement through Nova's report client and by direct requests."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4


@dataclass
class Peer:
    """Nova's report client, and direct requests to the same Placement. ``name`` is unique to the test."""

    client: Any
    context: Any
    url: str
    name: str = field(default_factory=lambda: f"node-{uuid4().hex[:8]}")

    def ask(self, method: str, path: str, body: Any = None, *, version: str = "1.39") -> tuple[int, Any]:
        """Send a direct request to Placement. Returns the status and the decoded body."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "X-Auth-Token": self.client._client.get_token(),
                "OpenStack-API-Version": f"placement {version}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def show(self, path: str) -> Any:
        """Send a direct GET that must succeed, and return the body."""
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def usages(self, provider: str) -> dict[str, int]:
        """Return resource class → used amount."""
        found: dict[str, int] = self.show(f"/resource_providers/{provider}/usages")["usages"]
        return found

    def inventories(self, provider: str) -> dict[str, int]:
        """Return resource class → total."""
        found = self.show(f"/resource_providers/{provider}/inventories")["inventories"]
        return {name: inventory["total"] for name, inventory in found.items()}

    def allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return provider → resource class → allocated amount of the consumer."""
        found = self.show(f"/allocations/{consumer}")["allocations"]
        return {provider: allocation["resources"] for provider, allocation in found.items()}
