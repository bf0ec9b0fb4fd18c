# SPDX-License-Identifier: Apache-2.0
"""Who asks for an operation, and under which request id."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """As it is recorded with instance actions and migrations."""

    request_id: str
    user_id: str
    project_id: str
