# SPDX-License-Identifier: Apache-2.0
"""A shell script in place of an emulator."""

from pathlib import Path


def stand_in(folder: Path, script: str) -> str:
    """Return the path of a program that does what a shell script says."""
    program = folder / "emulator"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)
