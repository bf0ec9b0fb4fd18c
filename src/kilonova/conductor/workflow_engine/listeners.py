# SPDX-License-Identifier: Apache-2.0
"""Who is told of what is no turn of a workflow of its own: images that hosts fetch, new services, big requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Service


@dataclass(frozen=True, slots=True)
class FetchedImages:
    """A host has fetched images before anybody asked for them, or could not.

    ``aggregate``: whose hosts were to fetch them, of which there are ``total``.
    """

    request_id: str
    aggregate: Aggregate
    host: str
    cached: tuple[str, ...]
    failed: tuple[str, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A server of a big request that was given up as a whole. ``message``, ``details``: as in its fault."""

    instance_uuid: str
    request_id: str
    message: str
    details: str


def _nobody(_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Called on the threads on which it happened, after the commit and never under a lock, so they must be quick."""

    images_fetched: Callable[[FetchedImages], None] = _nobody
    new_services: Callable[[Sequence[Service]], None] = _nobody
    not_built: Callable[[NotBuilt], None] = _nobody
