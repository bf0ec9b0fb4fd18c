# SPDX-License-Identifier: Apache-2.0
"""Pre-caching of images on hosts."""

from collections.abc import Sequence

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.cache_images import CACHE_IMAGES, CacheFacts
from kilonova.db import workflows
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.model.aggregate import Aggregate
from kilonova.model.requester import Requester


class ImageCaching:
    """Operation that pre-caches images on the hosts of aggregates."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def cache(self, aggregate: Aggregate, image_ids: Sequence[str], who: Requester, at_once: int) -> None:
        """Start caching images on all hosts of an aggregate, on ``at_once`` hosts in parallel."""
        hosts, owner = tuple(aggregate.hosts), self._starter.services.owner
        rows = [
            CACHE_IMAGES.first_row(
                WorkflowRow(
                    uuid=new_uuid(),
                    kind=CACHE_IMAGES.kind,
                    instance_uuid="",
                    reservation_id="",
                    request_id=who.request_id,
                    step="",
                    owner=owner,
                ),
                CacheFacts(
                    aggregate.name,
                    hosts[start::at_once],
                    tuple(image_ids),
                    aggregate_id=aggregate.id,
                    aggregate_uuid=aggregate.uuid,
                    total=len(hosts),
                ),
            )
            for start in range(min(at_once, len(hosts)))
        ]
        self._starter.services.database.write(lambda tx: workflows.insert(tx, rows, owner))
        self._starter.runner.begin(rows)
