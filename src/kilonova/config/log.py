# SPDX-License-Identifier: Apache-2.0
"""Log options of [DEFAULT], named as in oslo.log."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.logs.rotation import LogFile
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Log level, format and destination."""

    GROUP: ClassVar[str] = "DEFAULT"

    debug: Annotated[
        bool,
        Option(
            "Log at debug level, for example the hosts that pass each filter. On SIGHUP this option is read again "
            "from the files."
        ),
    ] = False
    use_json: Annotated[bool, Option("Log each line as a JSON object with the field names of oslo.log.")] = False
    log_file: Annotated[str | None, Option("Log file, relative to log_dir; unset: standard error.")] = None
    log_dir: Annotated[str | None, Option("Folder of log_file.")] = None
    log_rotation_type: Annotated[str, Option("Whether log_file is rotated by size.", choices=("none", "size"))] = "none"
    max_logfile_size_mib: Annotated[
        int, Option("Size at which log_file is rotated, in MiB.", name="max_logfile_size_mb", min=1)
    ] = 200
    max_logfile_count: Annotated[int, Option("Number of rotated log files that are kept.", min=1)] = 30

    @property
    def file(self) -> LogFile | None:
        """The file to log to; None: standard error."""
        if not self.log_file:
            return None
        max_bytes = self.max_logfile_size_mib * 2**20 if self.log_rotation_type == "size" else 0
        return LogFile(Path(self.log_dir or ".") / self.log_file, max_bytes, self.max_logfile_count)
