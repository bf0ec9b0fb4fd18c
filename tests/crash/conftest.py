# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.served import Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Fixture: starts control processes that stop with the test."""
    made: list[Served] = []

    def make(*args: Any, **options: str) -> Served:
        folder = tmp_path / f"served{len(made)}"
        folder.mkdir()
        made.append(Served(folder, *args, **options))
        return made[-1]

    yield make
    for served in made:
        if served.process is not None and served.process.poll() is None:
            served.kill()
