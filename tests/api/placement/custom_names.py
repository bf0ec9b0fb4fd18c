# SPDX-License-Identifier: Apache-2.0
"""Creation, use and deletion of a custom trait or resource class, which follow the same rules."""

from typing import Any

from api.placement.placement_service import Placement


def check_custom_names(placement: Placement, kind: str, standard: str, used: dict[str, Any]) -> None:
    """Create, use and delete CUSTOM_THING.

    ``standard``: a name that cannot be deleted. ``used``: arguments of a provider that has CUSTOM_THING.
    """
    client, custom = placement.admin, f"/{kind}/CUSTOM_THING"
    assert [client.put(custom).status for _ in range(2)] == [201, 204]
    assert client.get(custom).status in {200, 204}
    assert client.get(f"/{kind}/CUSTOM_OTHER").status == 404
    assert client.delete(f"/{kind}/{standard}").status == 400
    assert client.delete(f"/{kind}/CUSTOM_OTHER").status == 404
    for bad in ("PONY", "CUSTOM_a", "CUSTOM_", f"CUSTOM_{'X' * 250}"):
        assert client.put(f"/{kind}/{bad}").status == 400
    uuid = placement.add("h1", **used)
    refused = client.delete(custom)
    assert refused.status == 409
    assert "in use" in refused.detail
    assert client.delete(f"/resource_providers/{uuid}").status == 204
    assert client.delete(custom).status == 204
