# SPDX-License-Identifier: Apache-2.0
"""Files of a report: JSON, and the intervals as CSV."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COUNTS = (
    *("arrived", "accepted", "refused", "left", "moves", "failures", "evacuated", "left_over", "resized"),
    *("resizes_refused", "hosts", "hosts_down", "servers"),
)
_USAGE = ("capacity", "used", "deviation", "stranded")


def write_report(report: Mapping[str, Any], folder: Path) -> None:
    """Write ``report.json``, ``intervals.csv`` and ``refusals.csv`` into a folder, and create it if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    classes = sorted({name for _, each in _intervals(report) for name in each["usage"]})
    columns = [f"{name}_{part}" for name in classes for part in _USAGE]
    with (folder / "intervals.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "until_days", *_COUNTS, *columns])
        for policy, each in _intervals(report):
            usage = [each["usage"].get(name, {}).get(part, "") for name in classes for part in _USAGE]
            writer.writerow([policy, each["until_days"], *(each[name] for name in _COUNTS), *usage])
    with (folder / "refusals.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "until_days", "rule", "refused"])
        for policy, each in _intervals(report):
            writer.writerows([policy, each["until_days"], rule, count] for rule, count in each["refused_by"].items())


def _intervals(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for policy in report["policies"]:
        for each in policy["intervals"]:
            yield policy["policy"], each
