# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kilonova.cli.forecasts.plots import can_plot, write_plots
from support.forecasts import forecast_of, hosts, scenario, trace

NAMES = ("acceptance", "usage", "balance", "stranded", "servers", "moves", "refusals")


@pytest.mark.skipif(not can_plot(), reason="needs matplotlib")
def test_each_plot_is_written_as_svg_and_png(tmp_path: Path) -> None:
    given = trace(*[(day, 99, "large") for day in (1, 2, 3, 11)])
    report = forecast_of(scenario(), hosts(1), **given).report()
    write_plots(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")}
    texts = "".join(ET.parse(tmp_path / "acceptance.svg").getroot().itertext())
    assert "accepted servers [%]" in texts
    assert (tmp_path / "usage.png").read_bytes().startswith(b"\x89PNG")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_plots(report, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.skipif(not can_plot(), reason="needs matplotlib")
def test_a_forecast_without_hosts_and_servers_has_plots(tmp_path: Path) -> None:
    write_plots(forecast_of(scenario(), hosts(0)).report(), tmp_path)
    assert (tmp_path / "stranded.svg").is_file()


def test_the_command_does_not_load_the_library_before_it_plots() -> None:
    text = "import sys, kilonova.cli.commands.forecast; print(sorted({'matplotlib', 'numpy'} & {*sys.modules}))"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
