# SPDX-License-Identifier: Apache-2.0
"""The user, project and request id of a requested operation."""

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """The user and project that requested an operation, recorded with instance actions and migrations."""

    request_id: str
    user_id: str
    project_id: str
