# SPDX-License-Identifier: Apache-2.0
"""Live migration: orders to its two hosts, and reports of its progress."""

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PrepareLiveMigration:
    """To the destination: create an incoming paused guest, into which ``source`` can copy the memory."""

    step: StepId
    guest: GuestSpec
    source: str

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class LiveMigrate:
    """To the source: copy the running guest to ``destination``. Then the guest on the source becomes the kept guest.

    There is no timeout. The reply's ``power_state`` is the state before the migration, running or paused. The reply to
    an aborted migration has an error and ``aborted``; the guest still runs on the source.
    """

    step: StepId
    instance_uuid: str
    destination: str


@dataclass(frozen=True, slots=True)
class AbortLiveMigration:
    """To the source: abort the live migration of this workflow, whether it is running, queued or not yet received.

    The abort has no reply: the reply to ``LiveMigrate`` says whether the migration was aborted or completed. An abort
    that arrives after all memory has been copied has no effect.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ForceCompleteLiveMigration:
    """To the source: complete the live migration of this instance soon, by pausing the guest.

    The order has no reply; the reply to ``LiveMigrate`` comes sooner. No effect if no live migration is running.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ActivateMigrated:
    """To the destination: activate the incoming guest after it was fully copied; leave it paused if ``paused``."""

    step: StepId
    instance_uuid: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """Progress of a live migration, sent by the source about every second. 100 percent does not mean success."""

    step: StepId
    host: str
    instance_uuid: str
    memory_total_bytes: int = 0
    memory_processed_bytes: int = 0
    memory_remaining_bytes: int = 0
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0

    @property
    def percent(self) -> int:
        """Percentage of memory and disk that has been copied."""
        total = self.memory_total_bytes + self.disk_total_bytes
        return 100 * (self.memory_processed_bytes + self.disk_processed_bytes) // total if total else 0


LiveMigrationOrder = PrepareLiveMigration | LiveMigrate | ActivateMigrated
LiveMigrationInterrupt = AbortLiveMigration | ForceCompleteLiveMigration
