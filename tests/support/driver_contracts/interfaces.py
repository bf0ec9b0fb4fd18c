# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that change the network interfaces of guests. The guests are off, so no bridge is needed."""

from kilonova.model.ability import Ability
from kilonova.model.instance import PowerState
from kilonova.model.network_info import Vif, VifNetwork
from support.driver_contracts.absent import refuses_absent
from support.driver_places import Place

VIF = Vif(
    port_id="0a1b2c3d-1111-4222-8333-444455556666",
    mac="fa:16:3e:00:00:01",
    network=VifNetwork(id="6e3a2f5c-1111-4222-8333-444455556666", label="private", mtu=1442, bridge="br-int"),
    vif_type="bridge",
)


class InterfaceContract:
    ability = Ability.ATTACH_INTERFACE

    def test_an_interface_is_attached_and_detached_any_number_of_times(self, place: Place) -> None:
        guest = place.made()
        place.driver.stop(guest.uuid)
        for change in ("attach_interface", "detach_interface", "detach_interface"):
            getattr(place.driver, change)(guest.uuid, VIF)
            place.agent_dies()
            getattr(place.driver, change)(guest.uuid, VIF)
        place.driver.start(guest.uuid)
        assert place.state(guest) is PowerState.RUNNING
        refuses_absent(place, lambda uuid: place.driver.attach_interface(uuid, VIF))
