# SPDX-License-Identifier: Apache-2.0
"""Decoding into typed values, by several threads at the first use of a type."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kilonova.decoding import convert, decode

SOURCE = Path(__file__).parents[2] / "src" / "kilonova"

#: With `msgspec.convert` instead of `kilonova.decoding.convert`, this program ends with a segmentation fault.
_PROGRAM = """
import dataclasses, sys, threading
import msgspec
from kilonova.decoding import convert

sys.setswitchinterval(1e-6)
FIELDS = [("a", int), ("b", str), ("c", list[int])]
VALUE = {f"field{number}": {"a": 1, "b": "x", "c": [1]} for number in range(12)}

def new_type(make, number):
    part = make(f"Part{number}", FIELDS)
    return make(f"Whole{number}", [(name, part) for name in VALUE])

found = []
for number in range(100):
    kind = new_type({"struct": msgspec.defstruct, "dataclass": dataclasses.make_dataclass}[sys.argv[1]], number)
    together = threading.Barrier(4)

    def use():
        together.wait()
        found.append(convert(VALUE, kind).field11.c)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert found == [[1]] * 400, found
"""


@pytest.mark.parametrize("made", ["struct", "dataclass"])
def test_threads_may_use_a_type_for_the_first_time_at_once(made: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, made], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


class Point(msgspec.Struct):
    x: int


def test_values_have_the_type() -> None:
    assert convert({"x": 1}, Point) == decode('{"x": 1}', Point) == decode(b'{"x": 1}', Point) == Point(1)


def test_other_values_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `str`"):
        convert({"x": "one"}, Point)
    with pytest.raises(msgspec.DecodeError):
        decode("{", Point)


def test_all_modules_decode_types_this_way() -> None:
    """Decoders that are created at import are safe; so are types without fields, such as ``dict[str, str]``."""
    other = re.compile(r"msgspec\.convert\(|msgspec\.json\.decode\(.*type=(?!dict\[)")
    found = {
        f"{file.relative_to(SOURCE)}: {match}"
        for file in SOURCE.rglob("*.py")
        if file.name != "decoding.py"
        for match in other.findall(file.read_text(encoding="utf-8"))
    }
    assert found == set()
