# SPDX-License-Identifier: Apache-2.0
"""Mechanism driver of Neutron's ML2 plugin for simulated hosts: it binds every port at once, without an agent.

The entry point ``kilonova_simulated`` in ``pyproject.toml`` makes it known to Neutron. Guests of simulated hosts send
no packets, so nothing is plugged in: a bound port is active, and so are the subports of its trunk and an associated
floating address.
"""

from typing import Any

# GET /ports fails in Neutron 29 unless this model has been imported.
from neutron.db.models import port_forwarding  # noqa: F401
from neutron.objects import trunk as trunk_objects
from neutron.services.qos.drivers.openvswitch.driver import SUPPORTED_RULES
from neutron.services.trunk.drivers.base import DriverBase as TrunkDriver
from neutron_lib import constants, context
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import constants as plugin_constants
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from neutron_lib.services.qos.base import DriverBase as QosDriver
from sqlalchemy import orm

NAME = "kilonova_simulated"
_DETAILS = {portbindings.CAP_PORT_FILTER: True, portbindings.OVS_HYBRID_PLUG: False, "bridge_name": "br-int"}


class _SimulatedTrunks(TrunkDriver):  # type: ignore[misc,unused-ignore]
    is_loaded = True


class SimulatedMechanismDriver(api.MechanismDriver):  # type: ignore[misc,unused-ignore]
    """Binds ports as Open vSwitch would, on hosts of any name. Trunks and all QoS rules are accepted."""

    connectivity = portbindings.CONNECTIVITY_L2

    def initialize(self) -> None:
        orm.configure_mappers()
        vif_types = [portbindings.VIF_TYPE_OVS]
        self._trunks = _SimulatedTrunks(NAME, vif_types, [constants.TYPE_VLAN], can_trunk_bound_port=True)
        self._qos = QosDriver(NAME, vif_types, [portbindings.VNIC_NORMAL], SUPPORTED_RULES)
        for event in (events.AFTER_CREATE, events.AFTER_UPDATE):
            registry.subscribe(_show_association, resources.FLOATING_IP, event)
        registry.subscribe(_show_subports, resources.SUBPORTS, events.AFTER_CREATE)

    def responsible_for_ports_allocation(self, _context: Any) -> bool:
        """Accept the resource providers of every port: simulated hosts have no agents whose providers could differ."""
        return True

    def bind_port(self, context: Any) -> None:
        """Bind the port to its first segment."""
        for segment in context.segments_to_bind[:1]:
            context.set_binding(
                segment[api.ID], portbindings.VIF_TYPE_OVS, _DETAILS, status=constants.PORT_STATUS_ACTIVE
            )

    def update_port_postcommit(self, context: Any) -> None:
        """Activate a bound port that is not active, as after the activation of its second binding, and its subports."""
        if context.vif_type == portbindings.VIF_TYPE_OVS:
            if context.current["status"] != constants.PORT_STATUS_ACTIVE:
                _activate(context.current["id"])
            _activate_subports(port_id=context.current["id"])


def _show_subports(_resource: str, _event: str, _trigger: object, payload: Any) -> None:
    """Give subports that were added to a trunk the status of its port."""
    trunk = payload.states[-1]
    core = directory.get_plugin()
    if core.get_port(context.get_admin_context(), trunk.port_id)["status"] == constants.PORT_STATUS_ACTIVE:
        _activate_subports(id=trunk.id)


def _activate_subports(**which: str) -> None:
    admin = context.get_admin_context()
    trunk = trunk_objects.Trunk.get_object(admin, **which)
    for subport in trunk.sub_ports if trunk else ():
        _activate(subport.port_id)


def _activate(port: str) -> None:
    directory.get_plugin().update_port_status(context.get_admin_context(), port, constants.PORT_STATUS_ACTIVE)


def _show_association(_resource: str, _event: str, _trigger: object, payload: Any) -> None:
    """Set the status of a floating address in the database and in the response, in place of an L3 agent.

    The deletion of a port calls this in its transaction; another transaction would wait for the end of that one.
    """
    address = payload.latest_state
    status = constants.FLOATINGIP_STATUS_ACTIVE if address["port_id"] else constants.FLOATINGIP_STATUS_DOWN
    router = directory.get_plugin(plugin_constants.L3)
    router.update_floatingip_status(payload.context.elevated(), address["id"], status)
    address["status"] = status
