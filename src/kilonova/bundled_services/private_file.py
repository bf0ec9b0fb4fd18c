# SPDX-License-Identifier: Apache-2.0
"""Files with secrets: readable by their owner only, and written atomically."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace the file ``path`` atomically and durably by a file of mode 0600 that contains ``text``."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        part.unlink(missing_ok=True)
        # the error of a full disk has no path: add it
        raise OSError(error.errno, error.strerror, str(path)) from error
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
