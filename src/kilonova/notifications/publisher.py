# SPDX-License-Identifier: Apache-2.0
"""Publisher of notification events, which does nothing without a driver."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from kilonova.conductor.workflow_engine.listeners import FetchedImages, NotBuilt
from kilonova.conductor.workflow_engine.run import Failure
from kilonova.db import aggregates
from kilonova.db.database import Database
from kilonova.errors import KilonovaError
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Service
from kilonova.model.instance import VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.model.requester import Requester
from kilonova.notifications.dispatcher import Dispatcher
from kilonova.notifications.events import (
    AggregateActed,
    HostFetchedImages,
    HostsSought,
    NoHostFound,
    ResourceEvent,
    ServerChanged,
    ServiceActed,
)
from kilonova.notifications.message import Phase


class Publisher:
    """Publishes events from any thread without blocking.

    ``dispatcher``: None if no notification driver is configured; then nothing is computed. ``updates``: whether
    ServerChanged is published.
    """

    def __init__(self, dispatcher: Dispatcher | None = None, *, updates: bool = False) -> None:
        self._dispatcher = dispatcher
        self._updates = updates

    @property
    def is_on(self) -> bool:
        """True if there is a driver; callers check it before they read data only for an event."""
        return self._dispatcher is not None

    @property
    def is_busy(self) -> bool:
        """True if the queue is at least half full, so a caller that can wait should wait."""
        return self._dispatcher is not None and self._dispatcher.is_busy

    def tell(self, resource_event: ResourceEvent, who: Requester | None = None) -> None:
        """Publish an event. ``who``: the requester, or None if the event has none."""
        if self._dispatcher is None or (isinstance(resource_event, ServerChanged) and not self._updates):
            return
        self._dispatcher.tell(resource_event, who)

    def sought(self, spec: RequestSpec) -> None:
        """Publish that a scheduler request starts."""
        self.tell(HostsSought(Phase.START, spec), _asker(spec))

    def found(self, spec: RequestSpec) -> None:
        """Publish that the scheduler has found hosts."""
        self.tell(HostsSought(Phase.END, spec), _asker(spec))

    def new_services(self, services: Sequence[Service]) -> None:
        """Publish that services were created."""
        for service in services:
            self.tell(ServiceActed("create", service))

    def not_built(self, server: NotBuilt) -> None:
        """Publish that a server of a multi-server request failed because it, or another server of it, got no host."""
        failure = Failure(server.message, server.details, step="claim")
        who = Requester(server.request_id, "", "")
        self.tell(NoHostFound("build_instances", server.instance_uuid, VmState.ERROR, "build", failure), who)


def _asker(spec: RequestSpec) -> Requester | None:
    return Requester(spec.request_id, spec.user_id, spec.project_id) if spec.user_id else None


class CachingProgress:
    """Progress of caching images on an aggregate: counts the hosts of a request and publishes the end.

    Several workflows of a request run at once. Best effort: a process that takes over the workflows starts counting
    at 0, because it also repeats their hosts.
    """

    _MOST = 1000

    def __init__(self, announcer: Publisher, database: Database) -> None:
        self._announcer = announcer
        self._database = database
        self._lock = threading.Lock()
        #: Request id → number of hosts that have answered.
        self._counts: OrderedDict[str, int] = OrderedDict()

    def fetched(self, told: FetchedImages) -> None:
        """Publish the result of one host, and after the last host the end of the request."""
        with self._lock:
            index = self._counts.pop(told.request_id, 0) + 1
            if index < told.total:
                self._counts[told.request_id] = index
            if len(self._counts) > self._MOST:
                self._counts.popitem(last=False)
        who = Requester(told.request_id, "", "")
        self._announcer.tell(
            HostFetchedImages(told.aggregate, told.host, told.cached, told.failed, index, told.total), who
        )
        if index >= told.total:
            self._announcer.tell(AggregateActed("cache_images", Phase.END, self._present(told.aggregate)), who)

    def _present(self, aggregate: Aggregate) -> Aggregate:
        """Return the aggregate as stored now; if it cannot be read, return it unchanged."""
        try:
            with self._database.read() as connection:
                return aggregates.get(connection, aggregate.id)
        except KilonovaError:
            return aggregate
