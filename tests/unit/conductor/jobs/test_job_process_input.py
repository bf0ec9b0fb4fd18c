# SPDX-License-Identifier: Apache-2.0
import io

import pytest

from kilonova.conductor.jobs.job_process import JobChannel


def test_a_job_that_is_cut_off_is_no_job() -> None:
    with pytest.raises(EOFError):
        JobChannel(io.BytesIO(b'{"kind": "capacity"'), 1).read_job()
