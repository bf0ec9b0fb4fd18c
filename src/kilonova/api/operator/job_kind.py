# SPDX-License-Identifier: Apache-2.0
"""A kind of job: what a client asks for, what is stored, and what the job's process computes."""

from collections.abc import Callable
from typing import Any

from kilonova.api.http import Context
from kilonova.api.validation import Schemas
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.records import dataclass


def as_asked(ctx: Context, parameters: Any) -> Any:
    """Return the parameters as they are: the job's function reads them itself."""
    del ctx
    return parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job. ``name``: as in ``POST /jobs``. ``parameters``: their schema.

    ``run``: computes the result, JSON-ready, in a process of its own; its second argument is what ``prepare`` has
    returned. ``prepare``: validates the parameters as the user, who may be unknown later (names of images, policy), and
    returns them JSON-ready. ``rule``: policy rule that the client needs beside that of jobs.
    """

    name: str
    title: str
    parameters: Schemas
    run: Callable[[JobContext, Any], Any]
    rule: str
    prepare: Callable[[Context, Any], Any] = as_asked
