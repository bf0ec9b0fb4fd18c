# SPDX-License-Identifier: Apache-2.0
"""Unversioned payloads, as consumers of Nova's notifications parse them."""

from kilonova.notifications.payloads import unversioned
from support.interfaces import interface
from support.notified_events import stopped_server


def test_an_unversioned_server_has_the_odd_forms_that_consumers_know() -> None:
    said = unversioned.server(stopped_server(), (), "http://glance/images/i")
    assert (said["disk_gb"], said["progress"], said["cell_name"], said["state_description"]) == (3, "", "", "")
    assert (said["terminated_at"], said["image_ref_url"]) == ("", "http://glance/images/i")
    assert unversioned.server(stopped_server(progress=50), (), "")["progress"] == 50


def test_an_unversioned_server_has_fixed_addresses_with_their_floating_ones() -> None:
    vif = interface("private", "10.0.0.5", floating=("172.24.4.9",))
    assert unversioned.server(stopped_server(), (vif,), "")["fixed_ips"] == [
        {
            "address": "10.0.0.5",
            "type": "fixed",
            "version": 4,
            "meta": {},
            "floating_ips": [{"address": "172.24.4.9", "type": "floating", "version": 4, "meta": {}}],
            "label": "private",
            "vif_mac": vif.mac,
        }
    ]
