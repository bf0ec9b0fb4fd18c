# SPDX-License-Identifier: Apache-2.0
"""Migrations: moves of servers between hosts or flavors."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from kilonova.model.flavor import Flavor
from kilonova.model.quota import Usage
from kilonova.records import dataclass


class MoveKind(StrEnum):
    """Kind of move for which the scheduler chooses a host for an existing server."""

    RESIZE = "resize"
    COLD_MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"
    #: Rebuild with a new image on the current host.
    REBUILD = "rebuild"


class MigrationType(StrEnum):
    """Nova's ``migration_type`` values."""

    RESIZE = "resize"
    MIGRATION = "migration"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


class MigrationStatus(StrEnum):
    """Nova's migration status values."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    PRE_MIGRATING = "pre-migrating"
    MIGRATING = "migrating"
    POST_MIGRATING = "post-migrating"
    #: The guest of a resize or cold migration is on the destination; the user has to confirm or revert the move.
    FINISHED = "finished"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    REVERTING = "reverting"
    REVERTED = "reverted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"
    FAILED = "failed"
    #: The evacuated server is on its new host, but the source host has not yet removed the old guest.
    DONE = "done"

    @property
    def is_under_way(self) -> bool:
        """True while the migration holds resources at source and destination, or is about to claim them."""
        return self in OPEN


OPEN = frozenset(
    {
        MigrationStatus.ACCEPTED,
        MigrationStatus.QUEUED,
        MigrationStatus.PREPARING,
        MigrationStatus.RUNNING,
        MigrationStatus.PRE_MIGRATING,
        MigrationStatus.MIGRATING,
        MigrationStatus.POST_MIGRATING,
        MigrationStatus.FINISHED,
        MigrationStatus.CONFIRMING,
        MigrationStatus.REVERTING,
        MigrationStatus.DONE,
    }
)


#: Statuses of an evacuation whose server is recorded on its new host, while the source host may have the old guest.
_LEFT = frozenset({MigrationStatus.MIGRATING, MigrationStatus.DONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMigration:
    """One move of one server. From the claim on, the migration's uuid is the consumer of the allocations at the source.

    ``dest_host``, ``dest_node``: None until a host is claimed. ``old_flavor``, ``new_flavor``: different only for a
    resize. ``progress``: field name → number of bytes that a live migration has copied or has still to copy.
    """

    uuid: str
    instance_uuid: str
    migration_type: MigrationType
    status: MigrationStatus
    source_host: str
    source_node: str
    old_flavor: Flavor
    new_flavor: Flavor
    request_id: str = ""
    user_id: str = ""
    project_id: str = ""
    dest_host: str | None = None
    dest_node: str | None = None
    progress: Mapping[str, int] | None = None
    id: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def is_claimed(self) -> bool:
        """True while the migration holds resources at source and destination."""
        return self.status.is_under_way and self.dest_host is not None

    @property
    def source(self) -> tuple[str, str]:
        """Service host and node from which the server moves."""
        return self.source_host, self.source_node

    @property
    def dest(self) -> tuple[str | None, str | None]:
        """Service host and node to which the server moves."""
        return self.dest_host, self.dest_node

    @property
    def has_left(self) -> bool:
        """True if the evacuated server is recorded on its new host, while the source host may have the old guest."""
        return self.migration_type is MigrationType.EVACUATION and self.status in _LEFT

    @property
    def largest(self) -> Usage:
        """Quota usage during the move: for each resource, the larger of the amounts of old and new flavor."""
        old, new = Usage.of(self.old_flavor), Usage.of(self.new_flavor)
        return old + new.beyond(old)

    @property
    def hosts(self) -> frozenset[str]:
        """Service hosts that may have resources or a guest of the server because of this migration."""
        if self.status is MigrationStatus.DONE:
            # dest_host is left out: the server may have moved again, and its instance names the current host
            return frozenset({self.source_host})
        return frozenset({self.source_host, self.dest_host} - {None})  # type: ignore[arg-type]

    @property
    def changes_host(self) -> bool:
        """True if source and destination are different service hosts."""
        return self.dest_host is not None and self.dest_host != self.source_host
