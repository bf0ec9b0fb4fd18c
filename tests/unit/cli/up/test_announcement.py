# SPDX-License-Identifier: Apache-2.0
"""The commands that `kilonova up` suggests."""

from dataclasses import replace

import pytest

from kilonova.cli.up.announcement import Announcement
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.wiring.addresses import Address


@pytest.mark.parametrize("real_guests", [True, False])
def test_what_to_type_next_shows_the_console_of_a_real_guest(cloud: Cloud, real_guests: bool) -> None:
    said = Announcement(
        cloud, 1.0, bundled_services=True, unlimited=True, real_guests=real_guests, agents=False, data=""
    ).text()
    assert ("openstack console log show first\n" in said) is real_guests


@pytest.mark.parametrize("network", [Address("127.0.0.1", 4), None])
def test_what_to_type_next_makes_a_floating_address_if_there_are_networks(
    cloud: Cloud, network: Address | None
) -> None:
    said = Announcement(
        replace(cloud, network=network),
        1.0,
        bundled_services=True,
        unlimited=True,
        real_guests=False,
        agents=False,
        data="",
    ).text()
    assert ("openstack floating ip create public\n" in said) is (network is not None)


def test_what_to_type_next_logs_in_to_a_guest_with_ssh(cloud: Cloud) -> None:
    announcement = Announcement(
        replace(cloud, network=Address("127.0.0.1", 4)),
        1.0,
        bundled_services=True,
        unlimited=True,
        real_guests=True,
        agents=False,
        data="",
        has_linux=True,
    )
    assert "server ssh first -- -l root -i first.key\n" in announcement.text()
    assert "server ssh" not in replace(announcement, has_linux=False).text()
