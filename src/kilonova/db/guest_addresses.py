# SPDX-License-Identifier: Apache-2.0
"""Finds the server whose guest sent a packet, by host, network, source address and MAC address.

The answer decides whose metadata and keys a guest can read. So it relies on the host and the interfaces that the
database has, and an address that fits two servers fits none.
"""

import ipaddress
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import instance_networks
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.model.link_local import mac_in
from kilonova.model.network_info import Vif

_I, _A, _N = t.instances.c, t.instance_addresses.c, t.instance_networks.c
_HERE = sa.and_(_I.host == sa.bindparam("host"), _I.deleted.is_(False))
_WITH_ADDRESS = Prepared(
    sa.select(_I.uuid)
    .join(t.instance_addresses, _A.instance_uuid == _I.uuid)
    .where(_HERE, _A.address == sa.bindparam("address"))
)
_WITH_INTERFACES = Prepared(sa.select(_I.uuid).join(t.instance_networks, _N.instance_uuid == _I.uuid).where(_HERE))


def find_server(connection: Connection, host: str, network_id: str, address: str, mac: str) -> str | None:
    """Return the uuid of the server on ``host`` that has a fixed address in a network; None unless exactly one has.

    ``mac``: MAC address of the sender, which must be that of the interface; "" if unknown. An IPv6 link-local address
    needs it, because the network service does not assign these addresses; if the address contains another MAC address,
    there is no such server.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    wanted: str | None = str(parsed)
    if parsed.version == 6 and parsed.is_link_local:
        if not mac or mac_in(address) not in (None, mac):
            return None
        wanted = None
        rows = _WITH_INTERFACES.rows(connection, host=host)
    else:
        rows = _WITH_ADDRESS.rows(connection, host=host, address=wanted)
    infos = instance_networks.infos_of(connection, [uuid for (uuid,) in rows])
    found = [uuid for uuid, vifs in infos.items() if _fits(vifs, network_id, wanted, mac)]
    return found[0] if len(found) == 1 else None


def _fits(vifs: Iterable[Vif], network_id: str, address: str | None, mac: str) -> bool:
    return any(
        vif.network.id == network_id
        and mac in ("", vif.mac)
        and (address is None or any(fixed.address == address for _, fixed in vif.addresses))
        for vif in vifs
    )
