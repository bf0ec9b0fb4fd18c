# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``capacity``: how many more servers fit, of more flavors than one request may name."""

from dataclasses import asdict
from typing import Any

from kilonova.api.http import Context
from kilonova.api.operator.bodies.capacity import AskedCapacity
from kilonova.api.operator.capacity import asked_servers
from kilonova.api.operator.capacity_answer import CountedCloud, Question
from kilonova.api.operator.described_requests import in_group
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.schemas.capacity import CAPACITY_JOB, MOST_FLAVORS_OF_JOB
from kilonova.api.typed_body import read_typed
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import request_specs
from kilonova.model.request_spec import RequestSpec


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the requests to count, one for each flavor. Errors: 400 naming the field."""
    asked = asked_servers(ctx, read_typed(AskedCapacity, parameters), MOST_FLAVORS_OF_JOB)
    group = None if asked.group is None else asked.group.uuid
    return {
        "group": group,
        "requests": [request_specs.as_json(spec, group) for spec in asked.requests],
        "question": asdict(asked.question),
    }


def run(context: JobContext, prepared: Any) -> Any:
    """Count the servers of each flavor or of a mix, on one snapshot."""
    context.progress(0.0, "loading the cloud")
    state = context.snapshot()
    group = None if prepared["group"] is None else state.group(prepared["group"])
    requests = in_group([_request(each) for each in prepared["requests"]], group)
    cloud = CountedCloud(state.hosts, state.seq, state.engine, state.aliases)
    return Question(**prepared["question"]).answer(cloud, requests, context.progress)


def _request(stored: Any) -> RequestSpec:
    spec, _ = request_specs.from_json(stored)
    return spec


KIND = JobKind(
    name="capacity",
    title="Count how many more servers of each flavor or of a mix fit, of at most 1000 flavors",
    parameters=CAPACITY_JOB,
    prepare=prepare,
    run=run,
    rule="kilonova:capacity",
)
