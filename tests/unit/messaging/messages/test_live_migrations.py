# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.messaging.messages import MigrationProgress, StepId


@pytest.mark.parametrize(
    ("memory", "disk", "percent"),
    [
        ((0, 0), (0, 0), 0),
        ((100, 50), (0, 0), 50),
        ((100, 100), (300, 0), 25),
        ((3, 2), (0, 0), 66),
        ((1, 1), (1, 1), 100),
    ],
)
def test_memory_and_disk_count_together_and_nothing_to_copy_is_no_progress(
    memory: tuple[int, int], disk: tuple[int, int], percent: int
) -> None:
    progress = MigrationProgress(
        StepId("w", "s", 1),
        "node1",
        "i",
        memory_total_bytes=memory[0],
        memory_processed_bytes=memory[1],
        disk_total_bytes=disk[0],
        disk_processed_bytes=disk[1],
    )
    assert progress.percent == percent
