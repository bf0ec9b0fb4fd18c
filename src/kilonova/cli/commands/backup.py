# SPDX-License-Identifier: Apache-2.0
"""`kilonova backup` and `kilonova restore`: save a complete cloud of `kilonova up`, even while it runs; restore it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from kilonova.cli.up import backup_files
from kilonova.cli.up.data_folder import DEFAULT_FOLDER, default_folder

_Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The cloud's data folder.",
        show_default=DEFAULT_FOLDER,
    ),
]


def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="The backup: a new or empty folder.")],
    data: _Data = None,
) -> None:
    """Back up a cloud of `kilonova up`: databases, keys, passwords, images, simulated hosts.

    The cloud may be running.
    """
    folder, target = _absolute(data or default_folder()), _absolute(target)
    os.umask(0o077)
    with _progress() as progress:
        saved = backup_files.back_up(folder, target, _shown(progress))
    print(
        f"{folder} has been saved as {target} ({saved / 2**20:.1f} MiB). The backup contains passwords and keys: "
        "keep it private."
    )


def restore(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `kilonova backup` made.")],
    data: _Data = None,
) -> None:
    """Restore a cloud that `kilonova backup` saved, to a new or empty data folder."""
    folder, source = _absolute(data or default_folder()), _absolute(source)
    os.umask(0o077)
    with _progress() as progress:
        backup_files.restore(source, folder, _shown(progress))
    print(f"{source} has been restored to {folder}. Start it with: kilonova up --data {folder}")


def _progress() -> Progress:
    """Return a progress bar for a terminal, or a disabled one for a file or a pipe."""
    return Progress(transient=True, disable=not sys.stdout.isatty())


def _shown(progress: Progress) -> backup_files.Progress:
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what)
        progress.update(tasks[what], completed=done, total=total)

    return show


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()
