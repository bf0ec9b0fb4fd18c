# SPDX-License-Identifier: Apache-2.0
"""A forked process that becomes a command: its output files, and the exit of an interpreter."""

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def append_output(out: Path, errors: Path) -> None:
    """Append standard output and standard error of this process to files."""
    for descriptor, file in ((1, out), (2, errors)):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)


def run_kilonova(arguments: Sequence[str]) -> NoReturn:
    """Run ``kilonova`` with these arguments, and exit with its status."""
    from kilonova.cli.main import main

    sys.argv = ["kilonova", *arguments]
    status = 1
    try:
        status = main(arguments)
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - as the interpreter does at exit
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
