# SPDX-License-Identifier: Apache-2.0
"""Handling of the guests that hosts report (ADR 21).

A guest with a removal record is removed by an order to the host. A stray guest is stored in the database and logged. A
periodic report may be stale when it is handled, so the host is queried again before a stray guest is stored.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from itertools import islice

from sqlalchemy.engine import Connection

from kilonova.db import guest_placement, moves, pending_removals, pending_rollbacks, server_migrations, stray_guests
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.guest_placement import Found
from kilonova.db.pending_rollbacks import DueRollback
from kilonova.db.stray_guests import Differences
from kilonova.errors import Unavailable
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import AskGuests, GuestsFound, HostsStarted, RemoveGuest, StepId, StepReply
from kilonova.model.found_guest import FoundGuest, Removal, StrayGuest, StrayKind
from kilonova.model.host import Service
from kilonova.model.instance import PowerState
from kilonova.model.server_migration import ServerMigration
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Step id of messages that belong to no workflow.
_STEP = StepId("", "guests", 0)
#: Maximum length of a guest's UUID in characters. A longer one is an error or an attack, and does not fit the column.
_LONGEST = 36
#: Maximum number of guests that are checked for each host, because each check is a database lookup.
MOST_GUESTS = 5_000


@dataclass(frozen=True, slots=True)
class Reported:
    """Consequences of a report of guests.

    ``removals``: host → guests to remove. ``differences``: changes of the table of stray guests.
    ``outdated``: (host, instance) of old removal records to delete, because their guests no longer exist.
    ``clean``: evacuations whose source host no longer has the guest. ``new_services``: services of newly registered
    hosts. ``pending_rollbacks``: guests to restore on hosts that have just started.
    """

    removals: Mapping[str, tuple[Removal, ...]]
    differences: Differences
    outdated: tuple[tuple[str, str], ...] = ()
    clean: tuple[ServerMigration, ...] = ()
    new_services: tuple[Service, ...] = ()
    pending_rollbacks: tuple[DueRollback, ...] = ()

    def store(self, tx: Transaction) -> None:
        for evacuation in self.clean:
            moves.clean_source(tx, evacuation)
        stray_guests.store(tx, self.differences)
        pending_removals.forget(tx, self.outdated)

    def tell(self) -> None:
        """Log the changes. Call this after the commit of :meth:`store`."""
        for evacuation in self.clean:
            LOG.info("Host %s has no guest of evacuated server %s", evacuation.source_host, evacuation.instance_uuid)
        for odd in (*self.differences.appeared, *self.differences.altered):
            LOG.warning("Host %s: %s", odd.host, _sentence(odd))
        for odd in self.differences.gone:
            LOG.info("Host %s: guest %s no longer differs from the database", odd.host, odd.instance_uuid)


def read_report(connection: Connection, message: HostsStarted | GuestsFound, now: datetime) -> Reported:
    """Return the consequences of a report of guests. ``now``: database time."""
    found = _found(message)
    asked = message.asked if isinstance(message, GuestsFound) else None
    examined = guest_placement.examine(connection, found, now)
    lacking = guest_placement.missing(connection, found)
    odd = [*examined.odd, *(each for each in lacking if asked is None or each.instance_uuid in asked)]
    differences = stray_guests.differences(connection, odd, dict.fromkeys(found, asked))
    clean = _clean(connection, found, asked)
    if asked is not None:
        return Reported(examined.removals, differences, clean=clean)
    still_there = {host: {removal.instance_uuid for removal in examined.removals.get(host, ())} for host in found}
    outdated = tuple(pending_removals.forgettable(connection, still_there, now))
    due = pending_rollbacks.due(connection, found) if isinstance(message, HostsStarted) else ()
    return Reported(examined.removals, differences, outdated, clean, pending_rollbacks=due)


def _clean(connection: Connection, found: Found, asked: Collection[str] | None) -> tuple[ServerMigration, ...]:
    """Return the completed evacuations whose source host no longer has the guest. ``asked``: as in GuestsFound."""
    return tuple(
        each
        for each in server_migrations.evacuated_from(connection, found.keys())
        if (asked is None or each.instance_uuid in asked) and each.instance_uuid not in found[each.source_host]
    )


def _found(message: HostsStarted | GuestsFound) -> Found:
    return {
        host: {
            uuid: FoundGuest(state, message.marked.get(host, {}).get(uuid))
            for uuid, state in islice(guests.items(), MOST_GUESTS)
            if len(uuid) <= _LONGEST
        }
        for host, guests in message.guests.items()
    }


class GuestReports:
    """Handler of the agents' reports of guests.

    ``may_act``: returns whether this process holds its lease; if not, reports are dropped, because agents repeat them.
    ``find_agent``: called with a host that has no route; searches the database for its agent and returns True if found.
    """

    def __init__(
        self, database: Database, bus: ConductorBus, may_act: Callable[[], bool], find_agent: Callable[[str], bool]
    ) -> None:
        self._database = database
        self._bus = bus
        self._may_act = may_act
        self._find_agent = find_agent

    def take(self, message: GuestsFound) -> None:
        """Handle a report of guests: order removals, and store and log stray guests."""
        if not self._may_act():
            return
        with self._database.read() as connection:
            reported = read_report(connection, message, self._database.clock.now())
        for host, removals in reported.removals.items():
            for removal in removals:
                self._cast(host, RemoveGuest(_STEP, removal))
        if message.asked is None:
            reported = self._without_doubtful(reported)
        if reported.differences or reported.outdated or reported.clean:
            self._database.write(reported.store)
            reported.tell()

    def ask(self, host: str, uuids: Collection[str]) -> bool:
        """Query a host for guests; the answer is a report of guests. Return False if the host is unreachable."""
        return self._cast(host, AskGuests(_STEP, tuple(uuids)))

    def take_removed(self, reply: StepReply) -> None:
        """Handle the reply to the removal of a guest. If the removal failed, the next report triggers it again."""
        if reply.error is not None:
            LOG.warning("Host %s: guest %s could not be removed: %s", reply.host, reply.instance_uuid, reply.error)
        elif reply.power_state is PowerState.NOSTATE:
            self._note_clean(reply.host, reply.instance_uuid)
            with self._database.read() as connection:
                odd = stray_guests.find(connection, reply.host, reply.instance_uuid)
            if odd is not None and odd.is_stray:
                gone = Reported({}, Differences(gone=(odd,)))
                self._database.write(gone.store)
                gone.tell()

    def _note_clean(self, host: str, uuid: str) -> None:
        """Record that a host has removed the guest of a server that was evacuated from it."""
        with self._database.read() as connection:
            left = tuple(
                each for each in server_migrations.evacuated_from(connection, [host]) if each.instance_uuid == uuid
            )
        if left:
            cleaned = Reported({}, Differences(), clean=left)
            self._database.write(cleaned.store)
            cleaned.tell()

    def _without_doubtful(self, reported: Reported) -> Reported:
        """Query hosts again for guests with new differences, and return the report without these differences.

        Differences on unreachable hosts are kept.
        """
        doubtful: dict[str, list[str]] = defaultdict(list)
        for odd in (*reported.differences.appeared, *reported.differences.altered):
            doubtful[odd.host].append(odd.instance_uuid)
        for evacuation in reported.clean:
            doubtful[evacuation.source_host].append(evacuation.instance_uuid)
        asked = {host for host, uuids in doubtful.items() if self.ask(host, uuids)}
        clean = tuple(each for each in reported.clean if each.source_host not in asked)
        return Reported(reported.removals, reported.differences.without_new(asked), reported.outdated, clean)

    def _cast(self, host: str, message: AskGuests | RemoveGuest) -> bool:
        try:
            self._bus.cast(host, message)
        except Unavailable as error:
            if self._find_agent(host):
                return self._cast(host, message)
            LOG.info("%s The guests of the host will be checked when it reports them again.", error.message)
            return False
        return True


def _sentence(odd: StrayGuest) -> str:
    guest = f"guest {odd.instance_uuid}"
    match odd.oddity:
        case StrayKind.UNKNOWN:
            return f"{guest} belongs to no known server; it is kept"
        case StrayKind.ELSEWHERE:
            return f"{guest} is recorded on host {odd.recorded_host}, and no record says that it left; it is kept"
        case StrayKind.NOWHERE:
            return f"{guest} is recorded on no host, and no record says that it left; it is kept"
        case StrayKind.NEWER:
            return f"{guest} is newer than its removal record; it is kept"
        case StrayKind.UNMARKED:
            return f"{guest} does not bear the mark of Kilonova; it is kept"
        case StrayKind.MISSING:
            return f"there is no guest of server {odd.instance_uuid}, which is recorded here"
