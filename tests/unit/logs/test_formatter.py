# SPDX-License-Identifier: Apache-2.0
import io
import logging
import sys

import pytest

from kilonova.logs.formatter import MAX_LINE, MAX_TRACEBACK_LINES, OneLineFormatter, escape


def formatted(message: str, *args: object, error: BaseException | None = None) -> str:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("kilonova.test", logging.ERROR, __file__, 1, message, args, exc_info)
    return OneLineFormatter(logging.Formatter("%(levelname)s %(message)s")).format(record)


def test_the_process_is_named_where_there_are_several() -> None:
    record = logging.LogRecord("kilonova.test", logging.INFO, __file__, 1, "said", (), None)
    assert OneLineFormatter().format(record).endswith(" INFO kilonova.test said")
    record.processName = "worker 2"
    assert OneLineFormatter().format(record).endswith(" INFO kilonova.test [worker 2] said")


def raised(error: Exception) -> Exception:
    def fail() -> None:
        raise error

    try:
        fail()
    except Exception as caught:  # noqa: BLE001
        return caught
    return error


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("a\nERROR forged", "a\\nERROR forged"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u202egnp.exe\u202c \u2066x\u2069 \u200f\u061c", "\\u202egnp.exe\\u202c \\u2066x\\u2069 \\u200f\\u061c"),
        ("\ud800", "\\ud800"),
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
    ],
)
def test_controls_become_visible_and_all_else_stays(sent: str, shown: str) -> None:
    assert escape(sent) == shown
    assert formatted("image %s", sent) == f"ERROR image {shown}"
    assert formatted(sent) == f"ERROR {shown}"
    formatted(sent).encode()


def test_every_line_of_a_traceback_belongs_to_its_record() -> None:
    text = formatted("it failed", error=raised(ValueError('bad\n2026-11-22 INFO fine\n  File "/etc/x", line 1')))
    first, *following = text.split("\n")
    assert first == "ERROR it failed"
    assert all(line.startswith(" | ") for line in following)
    assert following[0] == " | Traceback (most recent call last):"
    assert following[-1] == ' | ValueError: bad\\n2026-11-22 INFO fine\\n  File "/etc/x", line 1'
    assert any("raise error" in line for line in following)


def test_causes_are_told() -> None:
    error = raised(ValueError("second"))
    error.__cause__ = raised(KeyError("first"))
    text = formatted("x", error=error)
    assert " | KeyError: 'first'\n" in text
    assert " | The above exception was the direct cause of the following exception:\n" in text
    assert text.endswith("\n | ValueError: second")


def test_lines_are_bounded() -> None:
    text = formatted("%s", "\n" * 1_000_000)
    assert len(text) < 2 * MAX_LINE + 100
    assert text.endswith("characters more)")


def test_tracebacks_are_bounded() -> None:
    def deeper(left: int) -> None:
        if left == 0:
            raise ValueError("x" * 1_000_000)
        [deeper, shallower][left % 2](left - 1)

    def shallower(left: int) -> None:
        deeper(left) if left == 0 else deeper(left - 1)

    try:
        deeper(sys.getrecursionlimit() // 3)
    except ValueError as error:
        text = formatted("x", error=error)
    assert len(text.splitlines()) == MAX_TRACEBACK_LINES + 2
    assert len(text) < 30_000
    assert "lines left out" in text
    assert " | ValueError: xxx" in text.splitlines()[-1]


def test_a_format_of_others_is_kept_and_made_safe() -> None:
    class Verbose(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"[{record.user}] {super().format(record)}"  # type: ignore[attr-defined]

    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(OneLineFormatter(Verbose()))
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "hello", None, None)
    record.user = "eve\nroot"
    record.exc_info = (ValueError, raised(ValueError("a\nb")), None)
    handler.handle(record)
    lines = output.getvalue().splitlines()
    assert lines[0] == "[eve\\nroot] hello"
    assert lines[-1] == " | ValueError: a\\nb"
