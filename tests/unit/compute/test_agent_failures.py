# SPDX-License-Identifier: Apache-2.0
"""A failure says what could not be done; what the hypervisor itself said goes to administrators."""

from pathlib import Path

from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.messaging.messages import SpawnGuest
from kilonova.model.instance import GuestSpec
from support.one_host import OneHost, guest, new_step


class Broken(FakeDriver):
    def spawn(self, guest: GuestSpec) -> None:
        try:
            Path("/nowhere/secret").stat()
        except OSError as error:
            raise DriverError(f"The hypervisor could not start guest {guest.uuid}.") from error


def test_the_cause_is_apart_from_the_message(tmp_path: Path) -> None:
    reply = OneHost(tmp_path, driver=Broken).do(SpawnGuest(new_step(), guest("a")))
    assert reply.error == "The hypervisor could not start guest a."
    assert reply.details == "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/secret'"
