# SPDX-License-Identifier: Apache-2.0
"""Jobs of a running cloud, for commands: started, waited for with a progress bar, cancelled by Ctrl-C."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from kilonova.cli.cloud.options import OPERATOR, WritableApi
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
    """Start a job, wait for its end, and return its result. Ctrl-C cancels the job.

    ``shows_progress``: whether a bar on the standard error stream shows the progress, if that is a terminal.
    Raises: JobFailed, and what the connection raises.
    """
    uuid = cloud.call("POST", OPERATOR, "/jobs", json={"kind": kind, "parameters": parameters})["job"]["id"]
    try:
        with _bar(kind, is_shown=shows_progress) as show:
            while True:
                job = cloud.get(OPERATOR, f"/jobs/{uuid}")["job"]
                show(job)
                if job["state"] not in _WAITS:
                    break
                pause(_ASKED_EVERY_S)
    except KeyboardInterrupt:
        with suppress(KilonovaError):
            cloud.call("DELETE", OPERATOR, f"/jobs/{uuid}")
        raise
    if job["state"] != "done":
        raise JobFailed(f"job {uuid} {job['state']}: {job['failure'] or 'by request'}")
    return job["result"]


@contextmanager
def _bar(kind: str, *, is_shown: bool) -> Any:
    """Return a context manager for a function that shows a job's progress."""
    console = Console(stderr=True)
    if not is_shown or not console.is_terminal or not sys.stderr.isatty():
        yield lambda _job: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(kind, total=1.0)

        def show(job: Mapping[str, Any]) -> None:
            text = "waiting for a worker" if job["state"] == "queued" else job["message"]
            progress.update(task, completed=job["progress"], description=f"{kind}: {text}" if text else kind)

        yield show
