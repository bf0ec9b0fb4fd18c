# SPDX-License-Identifier: Apache-2.0
"""Progress bar of commands that wait for long work, on the standard error stream."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(title: str, *, is_shown: bool) -> Iterator[Callable[[float, str], None]]:
    """Return a context manager for a function that shows the share done, from 0 to 1, and a line of text.

    Nothing is shown if ``is_shown`` is false or the standard error stream is no terminal.
    """
    console = Console(stderr=True)
    if not is_shown or not console.is_terminal or not sys.stderr.isatty():
        yield lambda _done, _text: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=1.0)

        def show(done: float, text: str) -> None:
            progress.update(task, completed=done, description=f"{title}: {text}" if text else title)

        yield show
