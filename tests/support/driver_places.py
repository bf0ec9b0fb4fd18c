# SPDX-License-Identifier: Apache-2.0
"""Environment of the driver contract tests: a host with images, and the callbacks that a driver calls."""

import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any

from kilonova.compute.virt.base import AgentStopsError
from kilonova.identifiers import new_uuid
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, PowerState


class Place(ABC):
    """Host without guests, with its driver and test images."""

    host: str
    #: ``VirtDriver`` with the abilities whose contracts are tested.
    driver: Any
    #: ``image``: boots normally. ``stubborn``: its guests ignore shutdown requests. ``damaged``: its data does not
    #: match its hash.
    image: ImageData
    stubborn: ImageData
    damaged: ImageData

    @abstractmethod
    def agent_dies(self) -> None:
        """Replace the driver by a new instance, as after a crash of the agent."""

    @abstractmethod
    def power_fails(self, uuid: str) -> None:
        """Power a guest off without the driver."""

    @abstractmethod
    def vanishes(self, uuid: str) -> None:
        """Remove a guest, but not its disk, without the driver."""

    @abstractmethod
    def left_behind(self, uuid: str) -> list[str]:
        """Return the names of everything that the host still has of a guest."""

    @abstractmethod
    def files_with(self, secret: bytes) -> list[str]:
        """Return the names of the host's files that contain the secret."""

    @abstractmethod
    def uploaded(self, image: ImageData) -> bytes | None:
        """Return the data uploaded to an image, or None if there is none."""

    def guest(self, image: ImageData | None = None, **more: Any) -> GuestSpec:
        """Return the description of a guest that has not been created."""
        uuid, image = new_uuid(), image or self.image
        known: dict[str, Any] = {"image_ref": image.image_id, "image": image, "ordered_at": now(), **more}
        return GuestSpec(
            uuid=uuid,
            name=f"instance-{uuid[:8]}",
            hostname="web",
            **{"vcpus": 1, "memory_mib": 32, "root_gib": 1, **known},
        )

    def made(self, image: ImageData | None = None, **more: Any) -> GuestSpec:
        guest = self.guest(image, **more)
        self.driver.spawn(guest)
        return guest

    def state(self, guest: GuestSpec) -> PowerState | None:
        return self.driver.list_guests().get(guest.uuid)


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def later(guest: GuestSpec) -> datetime:
    """Return a time one second after the guest was ordered, for a newer order."""
    assert guest.ordered_at is not None
    return guest.ordered_at + timedelta(seconds=1)


class GuestTimeout:
    """Waits up to ``looks`` polls for a guest to shut down. Implements ``ShutdownPatience``."""

    def __init__(self, looks: int = 600, *, stops: bool = False) -> None:
        self._left, self._stops = looks, stops

    def wait(self, seconds: float) -> bool:
        if self._stops:
            raise AgentStopsError
        self._left -= 1
        time.sleep(min(seconds, 0.1))
        return self._left > 0


class Monitor:
    """Lets a snapshot continue, or aborts it with an error. Implements ``SnapshotMonitor``."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error
