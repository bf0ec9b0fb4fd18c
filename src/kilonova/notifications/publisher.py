# SPDX-License-Identifier: Apache-2.0
"""Where everybody tells what happened, whether anybody listens or not."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from kilonova.conductor.workflow_engine.listeners import FetchedImages, NotBuilt
from kilonova.conductor.workflow_engine.workflow import Failure
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
    Happening,
    HostFetchedImages,
    HostsSought,
    NoHostFound,
    ServerChanged,
    ServiceActed,
)
from kilonova.notifications.message import Phase


class Publisher:
    """``dispatcher``: None where nobody listens; then nothing is computed. ``updates``: whether servers that change do.

    Safe to use from any thread; nobody waits.
    """

    def __init__(self, dispatcher: Dispatcher | None = None, *, updates: bool = False) -> None:
        self._dispatcher = dispatcher
        self._updates = updates

    @property
    def is_on(self) -> bool:
        """Whether anybody listens, for those who would have to read what they tell."""
        return self._dispatcher is not None

    @property
    def is_busy(self) -> bool:
        """Whether so much waits to be sent that whoever can tell later should."""
        return self._dispatcher is not None and self._dispatcher.is_busy

    def tell(self, happening: Happening, who: Requester | None = None) -> None:
        """Tell what happened; ``who`` asked for it."""
        if self._dispatcher is None or (isinstance(happening, ServerChanged) and not self._updates):
            return
        self._dispatcher.tell(happening, who)

    def sought(self, spec: RequestSpec) -> None:
        """The scheduler is asked for hosts."""
        self.tell(HostsSought(Phase.START, spec), _asker(spec))

    def found(self, spec: RequestSpec) -> None:
        """The scheduler has found them."""
        self.tell(HostsSought(Phase.END, spec), _asker(spec))

    def new_services(self, services: Sequence[Service]) -> None:
        """Services are there for the first time."""
        for service in services:
            self.tell(ServiceActed("create", service))

    def not_built(self, server: NotBuilt) -> None:
        """A server of a big request has no host, or others of it have none."""
        failure = Failure(server.message, server.details, step="claim")
        who = Requester(server.request_id, "", "")
        self.tell(NoHostFound("build_instances", server.instance_uuid, VmState.ERROR, "build", failure), who)


def _asker(spec: RequestSpec) -> Requester | None:
    return Requester(spec.request_id, spec.user_id, spec.project_id) if spec.user_id else None


class CachingProgress:
    """Counts the hosts that have fetched images for a request, and tells when all have.

    Several workflows of a request do that side by side. Best effort: a process that takes them over begins to count
    anew, as it begins with their first hosts again.
    """

    _MOST = 1000

    def __init__(self, announcer: Publisher, database: Database) -> None:
        self._announcer = announcer
        self._database = database
        self._lock = threading.Lock()
        #: Request id → how many hosts have answered.
        self._counts: OrderedDict[str, int] = OrderedDict()

    def fetched(self, told: FetchedImages) -> None:
        """Count a host."""
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
        """Return an aggregate as it is now, with its hosts; as it is known where it cannot be read."""
        try:
            with self._database.read() as connection:
                return aggregates.get(connection, aggregate.id)
        except KilonovaError:
            return aggregate
