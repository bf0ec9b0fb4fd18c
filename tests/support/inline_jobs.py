# SPDX-License-Identifier: Apache-2.0
"""Jobs that the process of the test computes, for control processes with ``job_workers = 0``."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kilonova.api.operator.job_kinds import KINDS
from kilonova.claims.present_cloud import PresentCloud
from kilonova.cli.wiring.changed_rules import ChangedRules
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import jobs
from kilonova.scheduler.devices.pci_request import Alias
from support.control import Control


def result_of_job(
    control: Control,
    kind: str,
    parameters: Mapping[str, Any],
    *,
    aliases: Mapping[str, Alias] | None = None,
    report: Callable[[float, str], None] = lambda _done, _text: None,
) -> dict[str, Any]:
    """Queue a job, compute it, and return its result as JSON has it. ``report``: takes the progress."""
    answer = control.operator.post("/jobs", {"kind": kind, "parameters": parameters})
    assert answer.status == 202, answer.body
    process = control.process
    (claimed,) = process.database.write(lambda tx: jobs.claim(tx, "me", 1))
    cloud = PresentCloud(
        process.database, process.core.rules.engine, aliases or {}, ChangedRules(process.settings).rebuild
    )
    found: dict[str, Any] = orjson.loads(orjson.dumps(KINDS[kind].run(JobContext(cloud, report), claimed.prepared)))
    return found


def stored_job(control: Control, kind: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Queue a job, compute it, and store its result; return the job's uuid and its result."""
    job = control.operator.post("/jobs", {"kind": kind, "parameters": parameters}).body["job"]["id"]
    assert compute_next(control) == job
    return job, control.operator.get(f"/jobs/{job}").body["job"]["result"]


def compute_next(control: Control) -> str:
    """Compute the oldest queued job, and store its result; return the job's uuid."""
    process = control.process
    (claimed,) = process.database.write(lambda tx: jobs.claim(tx, "me", 1))
    cloud = PresentCloud(process.database, process.core.rules.engine)
    packed = orjson.dumps(KINDS[claimed.kind].run(JobContext(cloud, lambda _done, _text: None), claimed.prepared))
    assert process.database.write(lambda tx: jobs.finish(tx, "me", claimed, zlib.compress(packed)))
    return claimed.uuid
