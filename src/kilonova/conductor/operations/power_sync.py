# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of servers with the power states of their guests. :func:`remedy` returns the reaction to a difference.

::

    report ──▶ differs from the record? ──▶ query these guests again ──▶ still so, and the server is unchanged?
                                                                         ──▶ record it, and stop or start the guest

A report, or the answer to a query, may be older than an action that has started since. So a report alone has no
consequence, and an answer is ignored if the server has changed since the query: every action changes the server's
record before the guest. Source: spec LIFECYCLE §6.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from kilonova.conductor.operations.power import Power
from kilonova.db import instances, power_states
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.power_states import Recorded
from kilonova.errors import KilonovaError, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import AskPowerStates, PowerStates, PowerStatesAnswer, StepId
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.requester import Requester

LOG = logging.getLogger(__name__)
_STEP = StepId("", "power states", 0)
_ASKED_TOGETHER = 500
_OFF = frozenset({PowerState.SHUTDOWN, PowerState.CRASHED})
_NOT_ON = _OFF | {PowerState.NOSTATE}


class Remedy(StrEnum):
    """Reaction to an unexpected power state, in addition to recording it.

    ``STOP``: stop the server, as with the API action. ``FORCE_STOP``: power the guest off. ``REBOOT``: start the guest
    again, after its host lost power. ``TELL``: only log a warning.
    """

    NOTHING = "nothing"
    TELL = "tell"
    STOP = "stop"
    FORCE_STOP = "force-stop"
    REBOOT = "hard-reboot"


def remedy(server: Recorded, said: PowerState, *, resume: bool = False) -> Remedy:
    """Return the remedy for a server whose guest has the power state ``said``. ``resume``: as in PowerStates.

    A reboot continues by itself, so the power state of its guest is only recorded.
    """
    if server.is_rebooting:
        return Remedy.NOTHING
    match server.vm_state:
        case VmState.ACTIVE if resume and said in _OFF and server.power_state is PowerState.RUNNING:
            return Remedy.REBOOT
        case VmState.ACTIVE if said in _OFF or said is PowerState.SUSPENDED:
            return Remedy.STOP
        case VmState.ACTIVE if said is not PowerState.RUNNING:
            return Remedy.TELL
        case VmState.STOPPED if said not in _NOT_ON:
            return Remedy.FORCE_STOP
        case VmState.PAUSED if said in _OFF:
            return Remedy.FORCE_STOP
        case VmState.SOFT_DELETED if said not in _NOT_ON:
            return Remedy.TELL
    return Remedy.NOTHING


class PowerSync:
    """Handler of reports and answers about the power states of guests.

    ``may_act``: returns whether this process holds its lease; if not, reports are dropped, because agents repeat them.
    ``find_agent``: called with a host that has no route; searches the database for its agent and returns True if found.
    """

    def __init__(
        self,
        database: Database,
        bus: ConductorBus,
        power: Power,
        may_act: Callable[[], bool],
        find_agent: Callable[[str], bool],
    ) -> None:
        self._database = database
        self._bus = bus
        self._power = power
        self._may_act = may_act
        self._find_agent = find_agent

    def take(self, report: PowerStates) -> None:
        """Handle a report: query again the guests whose power state differs from the record."""
        if not self._may_act():
            return
        with self._database.read() as connection:
            if report.whole:
                recorded = list(power_states.of_hosts(connection, report.guests))
            else:
                named = {uuid for guests in report.guests.values() for uuid in guests}
                recorded = list(power_states.of_servers(connection, named))
        doubtful: dict[str, dict[str, str]] = defaultdict(dict)
        for server in recorded:
            guests = report.guests.get(server.host or "")
            if guests is None or not (report.whole or server.uuid in guests):
                continue
            said = guests.get(server.uuid, PowerState.NOSTATE)
            if _differs(server, said, resume=report.resume):
                doubtful[server.host or ""][server.uuid] = server.seen
        for host, seen in doubtful.items():
            self._ask(host, seen, resume=report.resume)

    def judge(self, answer: PowerStatesAnswer) -> None:
        """Handle an answer: apply the remedies for guests whose servers have not changed since the query."""
        if not self._may_act():
            return
        with self._database.read() as connection:
            servers = {
                server.uuid: server
                for server in power_states.of_servers(connection, answer.seen)
                if (server.host, server.seen) == (answer.host, answer.seen[server.uuid])
            }
        noted: list[tuple[Recorded, PowerState]] = []
        for uuid, server in servers.items():
            said = answer.guests.get(uuid, PowerState.NOSTATE)
            what = remedy(server, said, resume=answer.resume)
            if what in {Remedy.NOTHING, Remedy.TELL}:
                if said is not server.power_state:
                    noted.append((server, said))
                    _tell(server, said, what)
            else:
                self._repair(server, said, what)
        if noted:
            self._database.write(lambda tx: power_states.store(tx, noted))

    def _repair(self, server: Recorded, said: PowerState, what: Remedy) -> None:
        """Start the workflow of a remedy, without a user. The transaction fails if the server has changed."""
        no_user = Requester(f"req-{new_uuid()}", "", "")

        def only_if(_tx: Transaction, present: Instance) -> None:
            power_states.require_unchanged(present, server)

        def record(tx: Transaction, _present: Instance) -> None:
            instances.change(tx, server.uuid, power_state=said)

        try:
            self._power.repair(server.uuid, what.value, no_user, only_if, record)
        except KilonovaError as error:  # a concurrent action has changed the server and determines its state
            LOG.info("Host %s: guest %s is not corrected: %s", server.host, server.uuid, error.message)
        else:
            _tell(server, said, what)

    def _ask(self, host: str, seen: Mapping[str, str], *, resume: bool) -> None:
        for some in _parts(seen):
            question = AskPowerStates(_STEP, some, resume)
            try:
                self._bus.cast(host, question)
            except Unavailable as error:
                if not self._find_agent(host):
                    LOG.info("%s Power states of the host will be checked when it reports them again.", error.message)
                    return
                self._bus.cast(host, question)


def _differs(server: Recorded, said: PowerState, *, resume: bool) -> bool:
    needs_repair = remedy(server, said, resume=resume) not in {Remedy.NOTHING, Remedy.TELL}
    return needs_repair or said is not server.power_state


def _parts(seen: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
    uuids = list(seen)
    for start in range(0, len(uuids), _ASKED_TOGETHER):
        yield {uuid: seen[uuid] for uuid in uuids[start : start + _ASKED_TOGETHER]}


_CONSEQUENCES = {
    Remedy.STOP: "; the server is stopped",
    Remedy.FORCE_STOP: "; it is powered off",
    Remedy.REBOOT: "; it is started again",
}


def _tell(server: Recorded, said: PowerState, what: Remedy) -> None:
    state = "gone" if said is PowerState.NOSTATE else said.name.lower()
    level = logging.INFO if what is Remedy.NOTHING else logging.WARNING
    LOG.log(
        level,
        "Host %s: guest %s is %s, and its server %s%s",
        server.host,
        server.uuid,
        state,
        server.vm_state.value,
        _CONSEQUENCES.get(what, ""),
    )
