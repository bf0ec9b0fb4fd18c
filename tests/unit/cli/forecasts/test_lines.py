# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.forecasts.lines import line_of, load_yaml
from kilonova.errors import ConfigurationError

TEXT = """\
length: 1y
arrivals:
  - per_day: 1
    flavors:
      small: 1
  - per_day: x
    flavors: {a: 1,
      b: 2}
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", None),
        ("length", 1),
        ("arrivals", 2),
        ("arrivals[0]", 3),
        ("arrivals[0].flavors.small", 5),
        ("arrivals[1].per_day", 6),
        ("arrivals[1].flavors.b", 8),
        ("arrivals[1].flavors[...]", 7),
        ("arrivals[7].per_day", 2),
        ("arrivals[0].absent", 3),
        ("absent", None),
    ],
)
def test_a_field_has_its_line(field: str, line: int | None) -> None:
    assert line_of(TEXT, field) == line


@pytest.mark.parametrize(("text", "message"), [("a: b: c", ", line 1: "), ("a:\n  - [", ", line 2: "), ("\x00", ": ")])
def test_a_file_that_is_not_yaml_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_yaml(path)
    assert caught.value.message.startswith(f"{path}{message}")
