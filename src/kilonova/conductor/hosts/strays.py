# SPDX-License-Identifier: Apache-2.0
"""Removal of stray guests by operators."""

import logging

from kilonova.conductor.hosts.guest_reports import GuestReports
from kilonova.db import guest_placement, instances, pending_removals, services, stray_guests
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import Conflict, NotFound
from kilonova.model.found_guest import RemovalReason, StrayKind
from kilonova.model.requester import Requester

LOG = logging.getLogger(__name__)


class Strays:
    """Operators' removal of stray guests: a removal record is written, and the host is queried for the guest."""

    def __init__(self, database: Database, reports: GuestReports) -> None:
        self._database = database
        self._reports = reports

    def remove(self, host: str, uuid: str, requester: Requester) -> bool:
        """Write a removal record for a stray guest, and query the host for the guest.

        The guest is removed when the host answers, or when the host next reports its guests. Return False if the host
        is unreachable, so that no query was sent. Raises: NotFound; Conflict if the server is recorded on the host, or
        the guest does not have Kilonova's mark.
        """

        def note(tx: Transaction) -> None:
            services.get_by_host(tx.connection, host)
            if guest_placement.belongs(tx.connection, host, uuid):
                raise Conflict(f"Guest {uuid} is recorded on host {host}: delete the server instead.")
            odd = stray_guests.find(tx.connection, host, uuid)
            if odd is not None and odd.oddity is StrayKind.UNMARKED:
                raise Conflict(
                    f"Guest {uuid} on host {host} does not bear the mark of Kilonova, so Kilonova does not remove it: "
                    "use the tools of the hypervisor."
                )
            # A guest that running_deleted_instance_action keeps after the delete of its server is not listed as stray,
            # but an operator may remove it.
            if odd is None and instances.find_any(tx.connection, uuid) is None:
                raise NotFound(f"Host {host} has reported no stray guest {uuid}.")
            pending_removals.note(tx, host, uuid, RemovalReason.LEFT)

        self._database.write(note)
        LOG.warning("Host %s: user %s requested the removal of guest %s", host, uuid, requester.user_id)
        return self._reports.ask(host, [uuid])
