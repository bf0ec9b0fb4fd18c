# SPDX-License-Identifier: Apache-2.0
"""The kinds of jobs. A new kind is a module ``<name>_job.py`` with a ``KIND``, and its line here."""

from collections.abc import Mapping

from kilonova.api.operator import capacity_job, diff_job, forecast_job, n_plus_one_job, preview_job, rebalance_job
from kilonova.api.operator.job_kind import JobKind

_ALL = (capacity_job.KIND, diff_job.KIND, forecast_job.KIND, n_plus_one_job.KIND, preview_job.KIND, rebalance_job.KIND)
#: Name → kind of job.
KINDS: Mapping[str, JobKind] = {kind.name: kind for kind in _ALL}
