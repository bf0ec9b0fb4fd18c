# SPDX-License-Identifier: Apache-2.0
"""Display of the progress of ``kilonova up`` while it starts: animated on a terminal, otherwise one line per event."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn


class StartProgress:
    """Shows a line for each process that starts.

    The display is redrawn only in :meth:`tick`, because a thread that draws would be unsafe with fork.
    """

    def __init__(self, terminal: bool | None = None) -> None:
        self._console = Console(file=sys.stdout, highlight=False)
        self._moving = self._console.is_terminal if terminal is None else terminal
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            auto_refresh=False,
        )
        self._tasks: dict[str, tuple[int, float]] = {}

    def __enter__(self) -> Self:
        if self._moving:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._moving:
            self._progress.stop()

    def start(self, name: str, text: str) -> None:
        self._tasks[name] = (len(self._tasks), time.monotonic())
        if self._moving:
            self._progress.add_task(text, total=1)
        else:
            print(f"{text} …", flush=True)

    def finish(self, name: str, text: str) -> None:
        task, started = self._tasks[name]
        full = f"{text} after {time.monotonic() - started:.1f} s"
        if self._moving:
            self._progress.update(self._progress.task_ids[task], description=full, completed=1)
        else:
            print(full, flush=True)

    def tick(self) -> None:
        if self._moving:
            self._progress.refresh()
