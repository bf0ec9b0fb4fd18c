# SPDX-License-Identifier: Apache-2.0
"""Record of the reasons of test failures for `tools/run_tests.sh`: a time limit on a busy machine, or another error.

With ``KILONOVA_FAILURES`` set to a file, each failure appends one line: reason, tab, test id.
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
#: Matches an assertion about time: a polling loop with a deadline, or a measured duration.
_CLOCK = re.compile(r"\b(?:monotonic|perf_counter|process_time)\(|\b(?:took|elapsed)\s*<")


def reason_of(failure: pytest.ExceptionInfo[BaseException]) -> str:
    """Return ``TIME_LIMIT`` if the test failed at a time limit, else ``OTHER``."""
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
            # one write per line, so that lines of several processes do not mix
            failures.write(f"{reason_of(call.excinfo)}\t{item.nodeid}\n")
    return report
