# SPDX-License-Identifier: Apache-2.0
"""Pre-caching of images on the hosts of an aggregate, one host after the other; best effort.

A host that is down is skipped, and an image that is not active is left out. A process that takes the workflow over
starts with the first host again; hosts do not download cached images twice.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from kilonova.conductor.workflow_engine.effects import Again, Completed, Effect, SendToAgent
from kilonova.conductor.workflow_engine.listeners import FetchedImages
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import WRITE_NOTHING, Workflow
from kilonova.db import services as compute_services
from kilonova.messaging.messages import CacheImages, StepReply
from kilonova.model.aggregate import Aggregate
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Results which say that the image is in the host's cache.
_THERE = {CacheResult.CACHED, CacheResult.EXISTING}


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Facts of pre-caching. ``aggregate``: name of the aggregate. ``images``: ids of the images.

    ``hosts``: hosts that have not finished, the present one first. ``total``: number of hosts in the aggregate.
    """

    aggregate: str
    hosts: tuple[str, ...]
    images: tuple[str, ...]
    aggregate_id: int = 0
    aggregate_uuid: str = ""
    total: int = 0

    @property
    def host(self) -> str | None:
        return self.hosts[0] if self.hosts else None


def _ask_next(services: Services, run: Run[CacheFacts]) -> Effect:
    facts, host = run.facts, run.facts.host
    if host is None:
        return Completed()
    with services.database.read() as connection:
        service = compute_services.find_by_host(connection, host)
    if service is None or not service.is_up:
        return _next(services, run, {}, "its compute service is down")
    offered = _offered(services, host, facts.images)
    if not offered:
        return _next(services, run, {}, "the images do not exist or are not active")
    return SendToAgent(host, CacheImages(run.step_id, offered))


def _offered(services: Services, host: str, image_ids: tuple[str, ...]) -> tuple[ImageData, ...]:
    """Return the download descriptions of images for a host; images that are not active are left out."""
    found = [services.images.find(image_id) for image_id in image_ids]
    data = [services.image_data(host, image) for image in found if image is not None and image.status == "active"]
    return tuple(each for each in data if each is not None)


def _answered(services: Services, run: Run[CacheFacts], reply: StepReply) -> Effect:
    return _next(services, run, reply.images, reply.error)


def _next(services: Services, run: Run[CacheFacts], results: Mapping[str, CacheResult], error: str | None) -> Effect:
    """Report the result of the present host and continue with the next one."""
    facts = run.facts
    cached = [image_id for image_id in facts.images if results.get(image_id) in _THERE]
    failed = [image_id for image_id in facts.images if image_id not in cached]
    LOG.info(
        "Images of aggregate %s: host %s has %d of %d", facts.aggregate, facts.host, len(cached), len(facts.images)
    )
    if failed:
        why = error or ", ".join(f"{each}: {results.get(each, CacheResult.ERROR)}" for each in failed)
        LOG.warning("Images of aggregate %s: host %s lacks %s: %s", facts.aggregate, facts.host, ", ".join(failed), why)
    aggregate = Aggregate(facts.aggregate_id, facts.aggregate_uuid, facts.aggregate)
    services.listeners.images_fetched(
        FetchedImages(run.request_id, aggregate, facts.host or "", tuple(cached), tuple(failed), facts.total)
    )
    return Again(replace(facts, hosts=facts.hosts[1:]))


CACHE_IMAGES = Workflow(
    "cache-images",
    CacheFacts,
    (one_way("ask", _ask_next, on_reply=_answered, blocking=True),),
    TRANSITIONS["build"],  # never used, since this workflow has no server; but every workflow must have a transition
    settle=WRITE_NOTHING,
    overtaken_by=frozenset(),
)
