# SPDX-License-Identifier: Apache-2.0
"""The moves of servers between hosts, or from one flavor to another: what Nova calls migrations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kilonova.model.flavor import Flavor
from kilonova.model.quota import Usage


class MoveKind(StrEnum):
    """Why a server that exists is placed anew, as rules see it."""

    RESIZE = "resize"
    COLD_MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"
    #: With a new image, on the host where it is.
    REBUILD = "rebuild"


class MigrationType(StrEnum):
    """What kind of move a migration is, in Nova's words."""

    RESIZE = "resize"
    MIGRATION = "migration"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


class MigrationStatus(StrEnum):
    """How far a migration is, in Nova's words."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    PRE_MIGRATING = "pre-migrating"
    MIGRATING = "migrating"
    POST_MIGRATING = "post-migrating"
    #: Of a resize or cold migration: waits for its user, who confirms or reverts it.
    FINISHED = "finished"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    REVERTING = "reverting"
    REVERTED = "reverted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"
    FAILED = "failed"
    #: Of an evacuation: the server is elsewhere, and its old host has yet to clean up.
    DONE = "done"

    @property
    def is_under_way(self) -> bool:
        """Whether the server holds something on two sides, or is about to."""
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


#: Of an evacuation.
_LEFT = frozenset({MigrationStatus.MIGRATING, MigrationStatus.DONE})


@dataclass(frozen=True, slots=True)
class ServerMigration:
    """One move of one server. Its uuid is the consumer that holds the source from the claim on.

    ``dest_host``, ``dest_node``: None until a host is claimed. ``old_flavor`` and ``new_flavor`` differ for a resize.
    ``progress``: what a live migration has copied so far, in bytes.
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
        """Whether it holds two sides."""
        return self.status.is_under_way and self.dest_host is not None

    @property
    def source(self) -> tuple[str, str]:
        """Service host and hypervisor that the server leaves."""
        return self.source_host, self.source_node

    @property
    def dest(self) -> tuple[str | None, str | None]:
        """Service host and hypervisor that the server goes to."""
        return self.dest_host, self.dest_node

    @property
    def has_left(self) -> bool:
        """Whether an evacuated server is recorded elsewhere for good, and its source has yet to clean up."""
        return self.migration_type is MigrationType.EVACUATION and self.status in _LEFT

    @property
    def largest(self) -> Usage:
        """What the server counts against quotas while it moves: of each resource the larger flavor's."""
        old, new = Usage.of(self.old_flavor), Usage.of(self.new_flavor)
        return old + new.beyond(old)

    @property
    def hosts(self) -> frozenset[str]:
        """Service hosts on which there may be something of the server, as far as the migration says."""
        if self.status is MigrationStatus.DONE:
            return frozenset({self.source_host})  # where the server is by now says its own row
        return frozenset({self.source_host, self.dest_host} - {None})  # type: ignore[arg-type]

    @property
    def changes_host(self) -> bool:
        """Whether source and destination are different service hosts."""
        return self.dest_host is not None and self.dest_host != self.source_host
