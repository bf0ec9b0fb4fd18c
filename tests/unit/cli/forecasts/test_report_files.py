# SPDX-License-Identifier: Apache-2.0
import csv
import json
from pathlib import Path

from kilonova.cli.forecasts.report_files import write_report
from support.forecasts import forecast_of, hosts, scenario, trace


def test_the_files_of_a_report_agree(tmp_path: Path) -> None:
    given = trace(*[(day, 99, "large") for day in (1, 2, 3, 11)])
    report = forecast_of(scenario(), hosts(1), **given).report()
    out = tmp_path / "new" / "out"
    write_report(report, out)
    assert json.loads((out / "report.json").read_text()) == report
    with (out / "intervals.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["until_days"] for row in rows] == ["10.0", "20.0", "30.0"]
    assert [row["accepted"] for row in rows] == ["2", "0", "0"]
    assert float(rows[-1]["VCPU_used"]) == 1.0
    with (out / "refusals.csv").open() as file:
        refusals = list(csv.DictReader(file))
    assert [(row["until_days"], row["rule"], row["refused"]) for row in refusals] == [
        ("10.0", "Placement: VCPU", "1"),
        ("20.0", "Placement: VCPU", "1"),
    ]
