# SPDX-License-Identifier: Apache-2.0
"""Live migration: orders to its two hosts, and how far the copying is."""

from dataclasses import dataclass

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import GuestSpec


@dataclass(frozen=True, slots=True)
class PrepareLiveMigration:
    """To the destination: make an incoming guest, paused, that ``source`` can copy its memory to."""

    step: StepId
    guest: GuestSpec
    source: str

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class LiveMigrate:
    """To the source: copy the running guest to ``destination``, then keep it. Takes as long as that takes.

    The reply's ``power_state`` is what the guest was, running or paused. A migration that was aborted is answered with
    an error and ``aborted``; its guest still runs at the source.
    """

    step: StepId
    instance_uuid: str
    destination: str


@dataclass(frozen=True, slots=True)
class AbortLiveMigration:
    """To the source: abort the live migration of this workflow, whether it runs, waits or has not come yet.

    Has no reply: that of ``LiveMigrate`` says whether the abort or the migration was first. One that comes when
    everything is copied has no effect.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ForceCompleteLiveMigration:
    """To the source: end the live migration of this instance soon, at the price of a pause of the guest.

    Has no reply: that of ``LiveMigrate`` comes sooner. Without a running migration it has no effect.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ActivateMigrated:
    """To the destination: the incoming guest is whole. Let it run, or leave it ``paused`` as it was."""

    step: StepId
    instance_uuid: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far the copying of a ``LiveMigrate`` is; told about every second. Says nothing of success."""

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
        """How much of memory and disk is copied."""
        total = self.memory_total_bytes + self.disk_total_bytes
        return 100 * (self.memory_processed_bytes + self.disk_processed_bytes) // total if total else 0


LiveMigrationOrder = PrepareLiveMigration | LiveMigrate | ActivateMigrated
LiveMigrationInterrupt = AbortLiveMigration | ForceCompleteLiveMigration
