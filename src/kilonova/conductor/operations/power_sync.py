# SPDX-License-Identifier: Apache-2.0
"""Servers and their guests are brought to agree: what the hypervisor says is recorded, and who wins is in ``RULES``.

::

    report ──▶ differs from what is recorded? ──▶ ask for these guests again ──▶ still so, and the server is as it was?
                                                                                 ──▶ record it, and stop what has to be

A report, or the answer to a question, may be overtaken by an action. So nothing is judged by a report, and an answer
counts only while its server has not changed since the question was asked: every action changes it before it does
anything to the guest. Source: spec LIFECYCLE §6.
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
    """What is done beside recording what the hypervisor says. ``STOP``: the server is stopped, as a user would.

    ``FORCE_STOP``: the guest is powered off again. ``REBOOT``: it runs again, after its host lost power.
    ``TELL``: it is said in the log.
    """

    NOTHING = "nothing"
    TELL = "tell"
    STOP = "stop"
    FORCE_STOP = "force-stop"
    REBOOT = "hard-reboot"


def remedy(server: Recorded, said: PowerState, *, resume: bool = False) -> Remedy:
    """Return what is to be done about a server whose guest is as its hypervisor says. ``resume``: see PowerStates."""
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
    """``may_act``: whether this process may act for its hosts; what comes when it may not is told again.

    ``find_agent``: looks whether a host can be reached after all that seemed not to be.
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
        """Ask again for the guests of a report that are not as they are recorded."""
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
        """Do what has to be done about guests, as far as their servers are as they were when this was asked for."""
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
                self._mend(server, said, what)
        if noted:
            self._database.write(lambda tx: power_states.store(tx, noted))

    def _mend(self, server: Recorded, said: PowerState, what: Remedy) -> None:
        """Begin an action of nobody's, in a transaction in which the server is still as it was."""
        nobody = Requester(f"req-{new_uuid()}", "", "")

        def only_if(_tx: Transaction, present: Instance) -> None:
            power_states.require_unchanged(present, server)

        def record(tx: Transaction, _present: Instance) -> None:
            instances.change(tx, server.uuid, power_state=said)

        try:
            self._power.mend(server.uuid, what.value, nobody, only_if, record)
        except KilonovaError as error:  # somebody else has just begun something, which settles what is what
            LOG.info("Host %s: guest %s is left alone: %s", server.host, server.uuid, error.message)
        else:
            _tell(server, said, what)

    def _ask(self, host: str, seen: Mapping[str, str], *, resume: bool) -> None:
        for some in _parts(seen):
            question = AskPowerStates(_STEP, some, resume)
            try:
                self._bus.cast(host, question)
            except Unavailable as error:
                if not self._find_agent(host):
                    LOG.info("%s The states of its guests are looked at when it reports them.", error.message)
                    return
                self._bus.cast(host, question)


def _differs(server: Recorded, said: PowerState, *, resume: bool) -> bool:
    is_to_be_mended = remedy(server, said, resume=resume) not in {Remedy.NOTHING, Remedy.TELL}
    return is_to_be_mended or said is not server.power_state


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
