# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks for the servers of the whole cloud. Each task is enabled by an option.

All control processes run the tasks. The transaction that starts a workflow for a server has a condition that fails if
another process has handled the server before. If a process dies, another process takes over its workflows.
"""

from kilonova.conductor.periodic.timetable import Ages, Timetable

__all__ = ["Ages", "Timetable"]
