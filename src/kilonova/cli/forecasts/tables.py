# SPDX-License-Identifier: Apache-2.0
"""Reports of forecasts as tables."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.printing import counted, plain_table


def policies_table(report: Mapping[str, Any]) -> Table:
    """Return a row for each policy."""
    table = plain_table()
    table.add_column("Policy", overflow="fold")
    for name in ("Accepted", "Refused", "Lasts", "Moves", "Used", "Deviation", "Stranded"):
        table.add_column(name, justify="right")
    table.add_column("Refused by", overflow="fold", ratio=1)
    for each in report["policies"]:
        usage = each["intervals"][-1]["usage"]
        rules = [f"{rule}: {count}" for rule, count in each["refused_by"].items()]
        table.add_row(
            Text(each["policy"]),
            "" if each["acceptance"] is None else f"{each['acceptance']:.2%}",
            str(each["refused"]),
            "to the end" if each["lasts_days"] is None else f"{each['lasts_days']:.0f} days",
            str(each["moves"]),
            *(_largest(usage, name) for name in ("used", "deviation", "stranded")),
            Text("\n".join(rules), style="yellow"),
        )
    return table


def _largest(usage: Mapping[str, Mapping[str, float]], name: str) -> str:
    """Return the largest value among the resource classes, with its class."""
    if not usage:
        return ""
    value, resource = max((each[name], resource) for resource, each in usage.items())
    return f"{value:.1%} {resource}"


def summary(report: Mapping[str, Any]) -> str:
    """Return what was forecast, as a sentence."""
    arrivals = counted(report["arrivals"], "server")
    checked = sum(each["checked"] for each in report["policies"])
    return f"{arrivals} in {report['days']:g} days, seed {report['seed']}. {counted(checked, 'decision')} checked."
