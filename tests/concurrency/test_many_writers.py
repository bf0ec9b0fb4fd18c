# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from concurrency.soak import PROCESSES, soak
from support.samples import sampled


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_64_writers_in_processes_never_exceed_a_capacity_and_lose_nothing(database_url: str, tmp_path: Path) -> None:
    processes = sampled(PROCESSES, sample=2)  # each process takes seconds to start
    report = soak(database_url, tmp_path, sampled(5_000, sample=600), processes=processes, clients=64 // processes)
    print(report)
    for kind in ("claim", "move", "release", "two at once", "shared", "shortage", "boot", "delete of a server"):
        assert report.operations[kind] > 0, kind
