# SPDX-License-Identifier: Apache-2.0
"""An out-of-tree hypervisor driver: a simulated host that writes an audit log of created and destroyed guests.

    [DEFAULT]
    compute_driver = audited_driver.AuditedDriver
    host = node1
    instances_path = /var/lib/kilonova/instances
    [AuditedDriver]
    book = audit.log

A driver for a real hypervisor implements all methods of ``kilonova.compute.virt.base.VirtDriver``. See
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
    """Driver with an audit log. ``book``: name of the log file in the host's folder."""

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
