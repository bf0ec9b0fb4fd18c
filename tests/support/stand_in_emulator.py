# SPDX-License-Identifier: Apache-2.0
"""Shell script that replaces an emulator."""

from pathlib import Path


def stand_in(folder: Path, script: str) -> str:
    """Write the shell script as an executable file, and return its path."""
    program = folder / "emulator"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)
