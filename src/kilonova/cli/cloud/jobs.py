# SPDX-License-Identifier: Apache-2.0
"""Jobs of a running cloud, for commands: started, waited for with a progress bar, cancelled by Ctrl-C."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kilonova.cli.cloud.options import OPERATOR, WritableApi
from kilonova.cli.cloud.progress import progress_bar
from kilonova.errors import KilonovaError

_ASKED_EVERY_S = 0.25
_WAITS = {"queued", "running"}


class JobFailed(KilonovaError):
    """The job failed, or was cancelled by another user."""


def run_job(
    cloud: WritableApi,
    kind: str,
    parameters: Mapping[str, Any],
    *,
    shows_progress: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> Any:
    """Start a job, wait for its end, and return its result; arguments and errors as of :func:`finished_job`."""
    return finished_job(cloud, kind, parameters, shows_progress=shows_progress, pause=pause)["result"]


def finished_job(
    cloud: WritableApi,
    kind: str,
    parameters: Mapping[str, Any],
    *,
    shows_progress: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Start a job, wait for its end, and return it. Ctrl-C cancels the job.

    ``shows_progress``: whether a bar on the standard error stream shows the progress, if that is a terminal.
    Raises: JobFailed, and what the connection raises.
    """
    uuid = cloud.call("POST", OPERATOR, "/jobs", json={"kind": kind, "parameters": parameters})["job"]["id"]
    return ended_job(cloud, kind, uuid, shows_progress=shows_progress, pause=pause)


def ended_job(
    cloud: WritableApi,
    kind: str,
    uuid: str,
    *,
    shows_progress: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Wait for the end of a job, and return it; arguments and errors as of :func:`finished_job`."""
    try:
        with progress_bar(kind, is_shown=shows_progress) as show:
            while True:
                job: dict[str, Any] = cloud.get(OPERATOR, f"/jobs/{uuid}")["job"]
                show(job["progress"], "waiting for a worker" if job["state"] == "queued" else job["message"])
                if job["state"] not in _WAITS:
                    break
                pause(_ASKED_EVERY_S)
    except KeyboardInterrupt:
        with suppress(KilonovaError):
            cloud.call("DELETE", OPERATOR, f"/jobs/{uuid}")
        raise
    if job["state"] != "done":
        raise JobFailed(f"job {uuid} {job['state']}: {job['failure'] or 'by request'}")
    return job
