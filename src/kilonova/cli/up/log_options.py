# SPDX-License-Identifier: Apache-2.0
"""Options of a process that logs to a file in the data folder."""

from pathlib import Path

from kilonova.bundled_services.settings import LOG_BYTES, LOGS_KEPT
from kilonova.scenario.options import Sections


def log_options(file: Path) -> Sections:
    """Return the options of a process that logs to a file, which is rotated."""
    return {
        "DEFAULT": {
            "log_file": file,
            "log_rotation_type": "size",
            "max_logfile_size_mb": LOG_BYTES // 2**20,
            "max_logfile_count": LOGS_KEPT,
        }
    }
