# SPDX-License-Identifier: Apache-2.0
"""What control processes do from time to time for the servers of the whole cloud, each chore as its option says.

Every process looks; whatever is found is taken in the transaction that begins it, under a condition of its row, so two
processes never do the same. What has begun is a workflow, which others take over if its process dies.
"""

from kilonova.conductor.periodic.timetable import Ages, Timetable

__all__ = ["Ages", "Timetable"]
