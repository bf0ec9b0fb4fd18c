# SPDX-License-Identifier: Apache-2.0
"""A kind of job: what a client asks for, what is stored, and what the job's process computes."""

from collections.abc import Callable
from typing import Any

from kilonova.api.http import Context
from kilonova.api.validation import Schemas
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job. ``name``: as in ``POST /jobs``. ``parameters``: their schema.

    ``prepare``: validates the parameters, resolves with the user's rights what they name (images, flavors), and returns
    them JSON-ready. ``run``: computes the result, JSON-ready, in a process of its own; its second argument is what
    ``prepare`` has returned. ``rule``: policy rule that the client needs beside that of jobs.
    """

    name: str
    title: str
    parameters: Schemas
    prepare: Callable[[Context, Any], Any]
    run: Callable[[JobContext, Any], Any]
    rule: str
