# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of servers: attach, detach."""

import logging
from collections.abc import Mapping

from kilonova.conductor.operations.outcomes import Awaited, Outcomes
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.run import Failure
from kilonova.conductor.workflows.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE, AttachFacts, DetachFacts
from kilonova.db import instance_networks
from kilonova.errors import Conflict, DriverError, Forbidden, InvalidRequest, KilonovaError, NotFound, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.network_info import NetworkInfo, Vif, find_vif
from kilonova.model.network_request import RequestedNetwork
from kilonova.model.request_spec import RequestedNetwork as Demand
from kilonova.model.requester import Requester

LOG = logging.getLogger(__name__)
#: Code of a failure → class of the error for the user.
_ERRORS: Mapping[int, type[KilonovaError]] = {
    400: InvalidRequest,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: Unavailable,
}


class Interfaces:
    """Operations that change the network interfaces of a server."""

    def __init__(self, starter: Starter, outcomes: Outcomes) -> None:
        self._starter = starter
        self._database = starter.services.database
        self._outcomes = outcomes

    def attach(self, uuid: str, network: RequestedNetwork, who: Requester, demand: Demand | None = None) -> Vif:
        """Attach an interface to a server; return the interface when the guest has it.

        ``demand``: what the port requires of the host; None if it requires nothing.
        Raises: NotFound, UnexpectedTaskState; NotFound, InvalidRequest, Forbidden, Conflict if the network service
        refuses the port; DriverError if the host fails, or the port cannot be bound to the host; Unavailable if the
        network service does not answer, or the result is not known in time.
        """
        awaited = Awaited(ATTACH_INTERFACE.kind, uuid, who.request_id)
        before = self._info(uuid)
        with self._outcomes.expecting(awaited) as outcome:
            self._starter.start(
                ATTACH_INTERFACE, lambda server: AttachFacts(server.host or "", network, demand=demand), uuid, who
            )
            event = self._outcomes.wait(awaited, outcome)
        if event is not None and event.phase is not Phase.DONE:
            raise _error(event.failure or Failure(event.message))
        vif = None if event is None else event.facts.vif
        return vif or self._new(uuid, before, network)

    def detach(self, uuid: str, port_id: str, who: Requester) -> None:
        """Start detaching an interface from a server.

        The port is deleted if it was created for the server, otherwise released. No error if the port is gone.
        Raises: NotFound, UnexpectedTaskState.
        """
        self._starter.start(DETACH_INTERFACE, lambda server: DetachFacts(server.host or "", port_id), uuid, who)

    def lose(self, uuid: str, port_id: str) -> None:
        """Start detaching an interface whose port the network service no longer has.

        Nothing is done if the server does not have the interface. A server that is busy, or in a state without
        detaches, keeps the interface until the next look-up of its ports.
        """
        if find_vif(self._info(uuid), port_id) is None:
            return
        who = Requester(f"req-{new_uuid()}", "", "")
        try:
            self.detach(uuid, port_id, who)
        except (NotFound, Conflict) as error:
            LOG.info("Server %s keeps the interface of deleted port %s: %s", uuid, port_id, error.message)

    def _info(self, uuid: str) -> NetworkInfo:
        with self._database.read() as connection:
            return instance_networks.info_of(connection, uuid)

    def _new(self, uuid: str, before: NetworkInfo, network: RequestedNetwork) -> Vif:
        """Return the interface that was attached by a workflow that has ended in another process."""
        known = {vif.port_id for vif in before}
        for vif in self._info(uuid):
            is_asked_for = network.port_id in {None, vif.port_id} and vif.network.id == network.network_id
            if vif.port_id not in known and is_asked_for:
                return vif
        raise DriverError(f"Failed to attach network adapter device to {uuid}")


def _error(failure: Failure) -> KilonovaError:
    return _ERRORS.get(failure.code, DriverError)(failure.message)
