# SPDX-License-Identifier: Apache-2.0
"""What is asked of the scheduler, as one value that is stored with the instance and used again for every move."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.server_group import GroupView


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """The part of a request that Placement answers.

    ``resources``: resource class → amount.
    ``required`` / ``forbidden``: traits of the root provider.
    ``member_of``: each set must share at least one aggregate uuid with the host; the sets are ANDed.
    ``forbidden_aggregates``: aggregate uuids the host must not be in.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One scheduling request: what, for whom, where not.

    ``hints``: hint name → its values, always a tuple; hints starting with ``_nova`` never come from users.
    ``force_host`` / ``force_node`` bypass all filters (``az:host:node``); ``requested_host`` / ``requested_node``
    (2.74) cut the list down before the filters, which then all run.
    ``remote_address``: where the API request came from. ``is_admin``: whether its caller was an administrator.
    """

    flavor: Flavor
    image: Image | None = None
    project_id: str = ""
    user_id: str = ""
    request_id: str = ""
    instance_uuids: tuple[str, ...] = ()
    availability_zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    force_host: str | None = None
    force_node: str | None = None
    requested_host: str | None = None
    requested_node: str | None = None
    ignore_hosts: frozenset[str] = frozenset()
    group: GroupView | None = None
    query: ResourceQuery = field(default_factory=ResourceQuery)
    volume_backed: bool = False
    remote_address: str | None = None
    is_admin: bool = False

    @property
    def num_instances(self) -> int:
        return max(1, len(self.instance_uuids))

    def with_query(self, **changes: Any) -> "RequestSpec":
        """Return a copy whose resource query has the given fields changed."""
        return replace(self, query=replace(self.query, **changes))
