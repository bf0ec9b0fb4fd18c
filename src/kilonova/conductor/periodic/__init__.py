# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks for the servers of the whole cloud, each enabled and timed by its option.

All control processes run them. A task claims its servers by a condition in the transaction that starts their workflows,
so two processes never handle the same server. If the process dies, another one takes the workflows over.
"""

from kilonova.conductor.periodic.timetable import Ages, Timetable

__all__ = ["Ages", "Timetable"]
