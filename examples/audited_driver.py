# SPDX-License-Identifier: Apache-2.0
"""A hypervisor driver from outside: a simulated host that keeps a book of the guests that were made and destroyed.

    [DEFAULT]
    compute_driver = audited_driver.AuditedDriver
    host = node1
    instances_path = /var/lib/kilonova/instances
    [AuditedDriver]
    book = audit.log

A driver for a real hypervisor has all methods of ``kilonova.compute.virt.base.VirtDriver`` of its own. See
docs/writing-a-driver.md.
"""

from dataclasses import InitVar, dataclass
from datetime import UTC, datetime

from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost


@dataclass(eq=False)
class AuditedDriver(FakeDriver):
    """``book``: the file's name, below the folder of the host."""

    setup: InitVar[HostSetup]
    book: str = "book"

    def __post_init__(self, setup: HostSetup) -> None:
        super().__init__(
            SimulatedHost(setup.host), setup.folder / f"{setup.host}.json", setup.ratios, images=setup.images
        )
        self._file = setup.folder / self.book

    def spawn(self, guest: GuestSpec) -> None:
        super().spawn(guest)
        self._note(f"made {guest.uuid}")

    def destroy(self, uuid: str) -> None:
        super().destroy(uuid)
        self._note(f"destroyed {uuid}")

    def _note(self, what: str) -> None:
        with self._file.open("a", encoding="utf-8") as book:
            book.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {what}\n")
