# SPDX-License-Identifier: Apache-2.0
"""[operator]: retention of decisions, checkpoints and deleted servers; limits of jobs and of the change feed."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Retention of decisions, checkpoints and deleted servers; limits of jobs and of the change feed."""

    GROUP: ClassVar[str] = "operator"

    purge_deleted_after_days: Annotated[
        int, Option("Days after which deleted servers are purged from the database; 0: never (Kilonova's own).", min=0)
    ] = 0
    decision_retention: Annotated[int, Option("Number of scheduling decisions kept for `kilonova explain`.", min=0)] = (
        10_000
    )
    checkpoints_kept: Annotated[
        int, Option("Number of hourly checkpoints kept; stored decisions are replayed from them.", min=0)
    ] = 4
    job_workers: Annotated[
        int,
        Option("Number of jobs that each control process runs at a time; 0: it runs none.", min=0, max=64),
    ] = 1
    max_jobs: Annotated[int, Option("Limit of unfinished jobs of the whole cloud.", min=0)] = 100
    max_jobs_per_project: Annotated[int, Option("Limit of unfinished jobs of a project.", min=0)] = 20
    job_timeout_s: Annotated[float, Option("Seconds after which a running job fails.", name="job_timeout", min=1.0)] = (
        3600.0
    )
    jobs_kept: Annotated[int, Option("Number of finished jobs that are kept with their results.", min=0)] = 200
    jobs_kept_days: Annotated[int, Option("Days for which finished jobs are kept with their results.", min=1)] = 7
    capacity_metrics_interval_s: Annotated[
        float,
        Option(
            "Seconds between two counts of free resources for metrics; 0: none.",
            name="capacity_metrics_interval",
            min=0.0,
        ),
    ] = 0.0
    capacity_metrics_budget_s: Annotated[
        float,
        Option("Seconds after which each of these counts ends.", name="capacity_metrics_budget", min=0.1, max=3600.0),
    ] = 10.0
    max_change_streams: Annotated[
        int, Option("Limit of clients of the change feed of each control process.", min=0, max=10_000)
    ] = 100
    max_change_streams_per_user: Annotated[
        int, Option("Limit of clients of the change feed of one user, for each control process.", min=0)
    ] = 10
