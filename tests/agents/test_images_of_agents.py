# SPDX-License-Identifier: Apache-2.0
"""An agent in a process of its own fetches images by ticket: no database, no token, PostgreSQL and RabbitMQ."""

import os
from collections.abc import Callable

import pytest

from agents.cloud import AgentCloud
from support.control import IMAGE
from support.glance_stand_in import image_cloud

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def test_an_agent_fetches_the_image_of_its_guests_by_ticket(agent_cloud: Callable[..., AgentCloud]) -> None:
    data = os.urandom(5_000_000)
    with image_cloud({IMAGE: data}) as images:
        cloud = agent_cloud(("east",), more=images.options)
        images.application = cloud.control.process.application
        for number in range(3):
            assert cloud.control.boot(name=f"vm{number}")["status"] == "ACTIVE"
        assert images.glance.reads == [IMAGE]
        (kept,) = (cloud.folder / "hypervisors" / "_base").glob("*")
        assert kept.read_bytes() == data
        images.glance.images["70a599e0-31e7-49b7-b260-868f441e862b"] = b"gone"
        images.glance.lost.add("70a599e0-31e7-49b7-b260-868f441e862b")
        lost = cloud.control.boot(imageRef="70a599e0-31e7-49b7-b260-868f441e862b")
        assert (lost["status"], "no longer exists" in lost["fault"]["message"]) == ("ERROR", True)
        cloud.check()
