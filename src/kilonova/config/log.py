# SPDX-License-Identifier: Apache-2.0
"""What [DEFAULT] says of the log, in the words of oslo.log."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.logs.rotation import LogFile


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How much is logged, and where to."""

    GROUP: ClassVar[str] = "DEFAULT"

    debug: Annotated[bool, Option("Log every rule's survivors and more. Read again from the files at SIGHUP.")] = False
    use_json: Annotated[bool, Option("Log one JSON object a line, with the field names of oslo.log.")] = False
    log_file: Annotated[
        str | None, Option("File to log to, below log_dir; without it the log goes to standard error.")
    ] = None
    log_dir: Annotated[str | None, Option("Folder of log_file.")] = None
    log_rotation_type: Annotated[str, Option("Whether log_file is rotated by size.", choices=("none", "size"))] = "none"
    max_logfile_size_mib: Annotated[
        int, Option("Size at which log_file is rotated, in MiB.", name="max_logfile_size_mb", min=1)
    ] = 200
    max_logfile_count: Annotated[int, Option("Rotated log files that are kept.", min=1)] = 30

    @property
    def file(self) -> LogFile | None:
        """The file to log to; None: standard error."""
        if not self.log_file:
            return None
        max_bytes = self.max_logfile_size_mib * 2**20 if self.log_rotation_type == "size" else 0
        return LogFile(Path(self.log_dir or ".") / self.log_file, max_bytes, self.max_logfile_count)
