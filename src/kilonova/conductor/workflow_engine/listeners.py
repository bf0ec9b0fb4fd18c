# SPDX-License-Identifier: Apache-2.0
"""Callbacks for events that are no change of a single workflow: fetched images, new services, failed big requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Service


@dataclass(frozen=True, slots=True)
class FetchedImages:
    """A host has pre-cached images, or failed to.

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
    """A server of a big request that failed as a whole. ``message``, ``details``: as in its fault."""

    instance_uuid: str
    request_id: str
    message: str
    details: str


def _nobody(_: object) -> None:
    """Ignore the event."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks, called on the thread of the event, after the commit and never under a lock. They must be quick."""

    images_fetched: Callable[[FetchedImages], None] = _nobody
    new_services: Callable[[Sequence[Service]], None] = _nobody
    not_built: Callable[[NotBuilt], None] = _nobody
