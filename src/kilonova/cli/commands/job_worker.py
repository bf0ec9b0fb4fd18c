# SPDX-License-Identifier: Apache-2.0
"""``kilonova job-worker``: the process of one job, which a control process starts. It is not a command for users."""

from typing import Annotated

import typer

from kilonova.bundled_services.parent_death import die_with_parent


def job_worker(
    config_file: Annotated[list[str], typer.Option("--config-file", help="Configuration file; later ones win.")],
    parent: Annotated[int, typer.Option(help="Process id of the control process.")],
) -> None:
    """Run the job that the control process writes to the standard input, and end with the control process."""
    die_with_parent(parent)
    from kilonova.conductor.jobs.job_process import JobChannel, lower_priority  # noqa: PLC0415 - dies with parent first

    lower_priority()
    channel = JobChannel.of_standard_streams()
    try:
        kind, parameters = channel.read_job()
    except EOFError:
        raise typer.Exit(1) from None
    channel.end_with_control_process()
    from kilonova.cli.wiring.job_process import run_job  # noqa: PLC0415 - at the low priority

    raise typer.Exit(run_job(channel, config_file, kind, parameters))
