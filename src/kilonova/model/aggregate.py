# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: groups of service hosts with metadata. The metadata key ``availability_zone`` makes an aggregate an
availability zone.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from kilonova.records import dataclass

ZONE_KEY = "availability_zone"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate. ``hosts``: service host names, in the order in which they were added."""

    id: int
    uuid: str
    name: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def availability_zone(self) -> str | None:
        return self.metadata.get(ZONE_KEY)
