# SPDX-License-Identifier: Apache-2.0
"""States of jobs: long computations for operators, each in a process of its own."""

from enum import Enum


class JobState(Enum):
    """State of a job. A queued job has not begun, or is to begin again; the last three states are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in {JobState.QUEUED, JobState.RUNNING}


UNFINISHED = (JobState.QUEUED, JobState.RUNNING)
