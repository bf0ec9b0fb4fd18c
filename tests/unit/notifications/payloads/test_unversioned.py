# SPDX-License-Identifier: Apache-2.0
"""Unversioned payloads, as consumers of Nova's notifications parse them."""

from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.notifications.payloads import unversioned


def server(**facts: object) -> Instance:
    common = {"flavor": Flavor("1", "m1.tiny", 1, 512, 1, 2), "power_state": PowerState.SHUTDOWN, **facts}
    return Instance(7, "u", "web", "wonder", "alice", VmState.STOPPED, **common)  # type: ignore[arg-type]


def test_an_unversioned_server_has_the_odd_forms_that_consumers_know() -> None:
    said = unversioned.server(server(), "http://glance/images/i")
    assert (said["disk_gb"], said["progress"], said["cell_name"], said["state_description"]) == (3, "", "", "")
    assert (said["terminated_at"], said["image_ref_url"]) == ("", "http://glance/images/i")
    assert unversioned.server(server(progress=50), "")["progress"] == 50
