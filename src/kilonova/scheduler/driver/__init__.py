# SPDX-License-Identifier: Apache-2.0
"""Scheduler drivers from outside: the classes that they inherit from and are called with."""

from kilonova.scheduler.driver.scheduler import (
    COMPUTE_TOPICS,
    Cloud,
    FilterScheduler,
    Launches,
    RequestContext,
    Scheduler,
    handle_schedule_error,
    instance_update_db,
)

__all__ = [
    "COMPUTE_TOPICS",
    "Cloud",
    "FilterScheduler",
    "Launches",
    "RequestContext",
    "Scheduler",
    "handle_schedule_error",
    "instance_update_db",
]
