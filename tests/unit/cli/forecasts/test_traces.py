# SPDX-License-Identifier: Apache-2.0
import math
from pathlib import Path

import pytest

from kilonova.cli.forecasts.traces import load_trace
from kilonova.errors import ConfigurationError
from kilonova.planning.forecast.server_kinds import Kinds
from support.forecasts import CATALOG


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_each_line_is_a_server(tmp_path: Path) -> None:
    text = "flavor,arrival,lifetime,image,project,zone,resize_after,resize_to\n"
    text += "small,0,1d,tiny,demo,nova,,\nlarge,90.5,,,,,,\nsmall,1h,10d,,,,2d,large\nsmall,1h,1d,,,,2d,large\n"
    kinds = Kinds(CATALOG)
    found = load_trace(written(tmp_path, text), kinds)
    assert found.arrival.tolist() == [0.0, 90.5, 3600.0, 3600.0]
    assert found.departure.tolist() == [86400.0, math.inf, 867600.0, 90000.0]
    assert [kinds.all[number].name[:4] for number in found.kind.tolist()][:2] == [
        ("small", "tiny", "demo", "nova"),
        ("large", "", "", ""),
    ]
    assert found.resized_at.tolist() == [math.inf, math.inf, 176400.0, math.inf]
    assert kinds.all[found.resized_to[2]].name.flavor == "large"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: column 'arrival' is missing"),
        ("arrival\n", "line 1: column 'flavor' is missing"),
        ("arrival,flavor,color\n", "line 1: unknown column 'color'"),
        ("arrival,flavor\n0,small\nx,small\n", "line 3: 'x' is not a duration"),
        ("arrival,flavor\n,small\n", "line 2: '' is not a duration"),
        ("arrival,flavor\n-1,small\n", "line 2: arrival must be at least 0 s"),
        ("arrival,flavor\nnan,small\n", "line 2: arrival must be"),
        ("arrival,flavor,lifetime\n0,small,0\n", "line 2: lifetime must be at least 0.001 s"),
        ("arrival,flavor\n0,odd\n", "line 2: flavors: unknown flavor 'odd'"),
        ("arrival,flavor\n0\n", "line 2: flavors: unknown flavor ''"),
        ("arrival,flavor\n0,small,1\n", "line 2: the line has more cells"),
        ("arrival,flavor,resize_after\n0,small,1\n", "line 2: resize_after and resize_to belong together"),
        ('arrival,flavor\n"0', "line 1: unexpected end of data"),
    ],
)
def test_an_error_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        load_trace(path, Kinds(CATALOG))
    assert f"{path}, {message}" in caught.value.message


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"arrival,flavor\n0,\xff\n")
    with pytest.raises(ConfigurationError, match="can't decode"):
        load_trace(path, Kinds(CATALOG))
