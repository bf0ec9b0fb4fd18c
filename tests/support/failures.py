# SPDX-License-Identifier: Apache-2.0
"""Record of why tests failed, for `tools/run_tests.sh`: a test that is too slow for a busy machine, or a real race.

With ``KILONOVA_FAILURES`` set to a file, each failure of a test appends a line to it: reason, tab, id of the test.
"""

import concurrent.futures
import os
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis.errors import DeadlineExceeded

TIME_LIMIT, OTHER = "time limit", "other"
_TIMEOUTS = (TimeoutError, concurrent.futures.TimeoutError, subprocess.TimeoutExpired, DeadlineExceeded)
#: An assertion about a clock: a loop that waited for its deadline, or a measured duration.
_CLOCK = re.compile(r"\b(monotonic|perf_counter|took|elapsed|taken)\b")


def reason_of(failure: pytest.ExceptionInfo[BaseException]) -> str:
    """Return ``TIME_LIMIT`` if a test failed because something took too long, else ``OTHER``."""
    if isinstance(failure.value, _TIMEOUTS):
        return TIME_LIMIT
    about_clock = isinstance(failure.value, AssertionError) and _CLOCK.search(str(failure.traceback[-1].statement))
    return TIME_LIMIT if about_clock else OTHER


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    file = os.environ.get("KILONOVA_FAILURES")
    if file and report.failed and call.excinfo is not None:
        with Path(file).open("a", encoding="utf-8") as failures:
            failures.write(f"{reason_of(call.excinfo)}\t{item.nodeid}\n")  # one write: lines of processes do not mix
    return report
