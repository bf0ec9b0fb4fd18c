# SPDX-License-Identifier: Apache-2.0
"""What tests of hypervisor drivers are given: a host with its images, and what a driver asks while it works."""

import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any

from kilonova.compute.virt.base import AgentStopsError
from kilonova.identifiers import new_uuid
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, PowerState


class Place(ABC):
    """A host without guests, and what images there are."""

    host: str
    #: A ``VirtDriver`` with the abilities whose contracts are tried.
    driver: Any
    #: Of the image that guests are made of; one whose guests ignore that they are asked to shut down; one that does not
    #: hash to what it should.
    image: ImageData
    stubborn: ImageData
    damaged: ImageData

    @abstractmethod
    def agent_dies(self) -> None:
        """Have another driver take over, as after a crash of the agent."""

    @abstractmethod
    def power_fails(self, uuid: str) -> None:
        """Turn a guest off behind the driver's back."""

    @abstractmethod
    def vanishes(self, uuid: str) -> None:
        """Remove a guest, but not its disk, behind the driver's back."""

    @abstractmethod
    def left_behind(self, uuid: str) -> list[str]:
        """Name what the host still has of a guest."""

    @abstractmethod
    def files_with(self, secret: bytes) -> list[str]:
        """Name the files of the host that contain a secret."""

    @abstractmethod
    def uploaded(self, image: ImageData) -> bytes | None:
        """Return the data that an image got, None while it has none."""

    def guest(self, image: ImageData | None = None, **more: Any) -> GuestSpec:
        """Describe a guest that nobody has made yet."""
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
    """Return when a guest is ordered anew."""
    assert guest.ordered_at is not None
    return guest.ordered_at + timedelta(seconds=1)


class Patience:
    """Waits as often as it is asked to until it is over. Implements ``ShutdownPatience``."""

    def __init__(self, looks: int = 600, *, stops: bool = False) -> None:
        self._left, self._stops = looks, stops

    def wait(self, seconds: float) -> bool:
        if self._stops:
            raise AgentStopsError
        self._left -= 1
        time.sleep(min(seconds, 0.1))
        return self._left > 0


class Monitor:
    """Lets a snapshot go on, or not. Implements ``SnapshotMonitor``."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error
