# SPDX-License-Identifier: Apache-2.0
"""The interface of third-party scheduler drivers: their base classes and the objects that they receive."""

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
