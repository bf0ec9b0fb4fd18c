# SPDX-License-Identifier: Apache-2.0
"""Audit checks of the guests that hosts report: stray guests, and servers whose guest is missing."""

from collections.abc import Iterator
from functools import partial

from sqlalchemy.engine import Connection

from kilonova.db import guest_placement, stray_guests
from kilonova.db.audits.finding import Finding
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict

_REMEDY = "changes nothing: see `kilonova hosts --strays` for the possible actions"


def guests_not_recorded(connection: Connection) -> Iterator[Finding]:
    """Find guests on hosts where their server is not recorded: the resources that they use there count as free."""
    for odd in stray_guests.list_page(connection):
        if odd.is_stray and not guest_placement.belongs(connection, odd.host, odd.instance_uuid):
            recorded = (
                "it is recorded on no host" if odd.recorded_host is None else f"it is recorded on {odd.recorded_host}"
            )
            why = f"{recorded}, so the resources that it uses are not counted"
            yield _finding(f"guest {odd.instance_uuid} on host {odd.host}", "its host reports it", why)


def servers_without_guest(connection: Connection) -> Iterator[Finding]:
    """Find servers in a settled state whose host reports no guest for them."""
    for odd in stray_guests.list_page(connection):
        if not odd.is_stray and guest_placement.is_at_rest(connection, odd.host, odd.instance_uuid):
            what = f"it is recorded on host {odd.host}"
            yield _finding(f"server {odd.instance_uuid}", what, "the host reports no such guest")


def _finding(where: str, what: str, why: str) -> Finding:
    return Finding("guest", where, what, why, _REMEDY, partial(_refuse, where=where))


def _refuse(_tx: Transaction, *, where: str) -> None:
    raise Conflict(f"Only an operator can decide about {where}: see `kilonova hosts --strays`.")
