# SPDX-License-Identifier: Apache-2.0
"""Publisher of notification events. It does nothing if no notification driver is configured."""

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
        """True if a driver is configured. Callers check this before they read data that only an event needs."""
        return self._dispatcher is not None

    @property
    def is_busy(self) -> bool:
        """True if the queue is at least half full. A caller that may block should then wait."""
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
        """Publish that a server was not built: no host was found for it, or for another server of the same request."""
        failure = Failure(server.message, server.details, step="claim")
        who = Requester(server.request_id, "", "")
        self.tell(NoHostFound("build_instances", server.instance_uuid, VmState.ERROR, "build", failure), who)


def _asker(spec: RequestSpec) -> Requester | None:
    return Requester(spec.request_id, spec.user_id, spec.project_id) if spec.user_id else None


class CachingProgress:
    """Progress of requests to cache images on an aggregate: counts the finished hosts and publishes the end.

    Several workflows of one request run at once. Counts are kept in memory only: another control process that takes
    over the workflows counts from 0, because it starts each of them with the first host again.
    """

    _MOST = 1000

    def __init__(self, announcer: Publisher, database: Database) -> None:
        self._announcer = announcer
        self._database = database
        self._lock = threading.Lock()
        #: Request id → number of finished hosts.
        self._counts: OrderedDict[str, int] = OrderedDict()

    def fetched(self, told: FetchedImages) -> None:
        """Publish the result of one host. After the last host, also publish the end of the request."""
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
        """Return the aggregate as it is stored now; if the database cannot be read, return ``aggregate``."""
        try:
            with self._database.read() as connection:
                return aggregates.get(connection, aggregate.id)
        except KilonovaError:
            return aggregate
