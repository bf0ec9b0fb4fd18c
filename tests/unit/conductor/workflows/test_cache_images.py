# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine.effects import Again, Completed
from kilonova.conductor.workflow_engine.listeners import FetchedImages
from kilonova.conductor.workflows.cache_images import CACHE_IMAGES, CacheFacts
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import StepId, StepReply
from kilonova.model.image_data import CacheResult

FACTS = CacheFacts("rack", ("node1", "node2"), ("i", "j", "k"), total=5)
ROW = CACHE_IMAGES.first_row(
    WorkflowRow(uuid="w", kind="cache-images", instance_uuid="", reservation_id="", request_id="req-1", step=""), FACTS
)


def test_what_a_host_did_not_answer_for_has_failed_and_the_next_host_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[FetchedImages] = []
    services: Any = SimpleNamespace(listeners=SimpleNamespace(images_fetched=told.append))
    images = {"i": CacheResult.CACHED, "j": CacheResult.EXISTING}
    reply = StepReply(StepId("w", "ask", 1), "node1", "", images=images)
    effect = CACHE_IMAGES.steps[0].on_reply(services, CACHE_IMAGES.run(ROW), reply)
    assert effect == Again(replace(FACTS, hosts=("node2",)))
    (one,) = told
    assert (one.host, one.cached, one.failed, one.total) == ("node1", ("i", "j"), ("k",), 5)
    assert "k" in caplog.text


def test_without_a_further_host_it_is_done() -> None:
    row = CACHE_IMAGES.first_row(ROW, replace(FACTS, hosts=()))
    services: Any = None
    assert CACHE_IMAGES.steps[0].do(services, CACHE_IMAGES.run(row)) == Completed()
