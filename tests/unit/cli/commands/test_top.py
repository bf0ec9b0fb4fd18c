# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from rich.console import Console
from tests.unit.cli.cloud.test_usage import HEALTH, answer

from kilonova.cli.commands.top import follow
from kilonova.cli.main import main
from kilonova.errors import InvalidRequest


class Answers:
    """Operator API whose first host gets one more VCPU used with each answer."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        if path == "/health":
            return {"health": HEALTH}
        self.asked.append(query)
        count = len(self.asked)
        return answer(("a", count, 10), whole=count == 1, version=f"aa-{count}")


def test_it_asks_for_changes_until_it_is_interrupted() -> None:
    api, console, pauses = Answers(), Console(force_terminal=True, width=90, height=30), iter([None, None])

    def pause(_seconds: float) -> None:
        try:
            next(pauses)
        except StopIteration:
            raise KeyboardInterrupt from None

    with console.capture() as capture, pytest.raises(KeyboardInterrupt):
        follow(api, console, by=None, rows=5, every_s=2.0, once=False, pause=pause)
    assert api.asked == [{}, {"after": "aa-1"}, {"after": "aa-2"}]
    assert "30%" in capture.get()


def test_once_asks_once() -> None:
    api, console = Answers(), Console(width=90)
    with console.capture() as capture:
        follow(api, console, by="VCPU", rows=5, every_s=2.0, once=True)
    assert len(api.asked) == 1
    assert "1 host · 1 up" in capture.get()


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="--by must be one of VCPU, MEMORY_MB, servers, not 'x'"):
        follow(Answers(), Console(), by="x", rows=5, every_s=2.0, once=True)


@pytest.mark.parametrize("arguments", [["--hosts", "0"], ["--every", "0"], ["--os-cloud", "no-such-cloud"]])
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["top", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
