# SPDX-License-Identifier: Apache-2.0
"""Callbacks for events other than workflow changes: pre-cached images, new services, servers that were not built."""

from collections.abc import Callable, Sequence

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Service
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class FetchedImages:
    """Event: a host has pre-cached images, or has failed to do so.

    ``aggregate``: the aggregate for which the images are cached; it has ``total`` hosts.
    """

    request_id: str
    aggregate: Aggregate
    host: str
    cached: tuple[str, ...]
    failed: tuple[str, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """Event: a server was not built, because its big request failed as a whole.

    ``message``, ``details``: from the fault of the server.
    """

    instance_uuid: str
    request_id: str
    message: str
    details: str


def _nobody(_: object) -> None:
    """Ignore the event."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for events. They run after the commit, on the thread that committed, never under a lock.

    They must be quick.
    """

    images_fetched: Callable[[FetchedImages], None] = _nobody
    new_services: Callable[[Sequence[Service]], None] = _nobody
    not_built: Callable[[NotBuilt], None] = _nobody
