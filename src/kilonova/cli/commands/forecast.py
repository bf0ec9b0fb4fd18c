# SPDX-License-Identifier: Apache-2.0
"""``kilonova forecast``: runs months or years of a scenario on the scheduler's rules, in virtual time."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kilonova.cli.cloud.jobs import run_job
from kilonova.cli.cloud.options import AdminCloud, DataFolder, connect
from kilonova.cli.cloud.printing import output_console, print_json
from kilonova.cli.cloud.progress import progress_bar
from kilonova.cli.forecasts.plots import can_plot, write_plots
from kilonova.cli.forecasts.report_files import write_report
from kilonova.cli.forecasts.tables import policies_table, summary


def forecast(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The scenario: a YAML file.")],
    compare: Annotated[
        list[Path] | None,
        typer.Option(metavar="POLICY.yaml", help="Options of a further policy to try on the same servers; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the report into this folder: JSON, CSV and plots.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Forecast which servers of a scenario the scheduler accepts, and where the cloud gets full. Nothing changes."""
    from kilonova.cli.forecasts.described import load_forecast, run_described  # noqa: PLC0415 - slow to import
    from kilonova.cli.forecasts.policies import load_policy  # noqa: PLC0415 - slow to import

    file = load_forecast(scenario)
    if file.scenario.cloud is None:
        given = [load_policy(path).of_present_cloud() for path in compare or ()]
        parameters = {"scenario": file.content, "name": file.path.stem, "policies": given}
        report = run_job(connect(data, os_cloud), "forecast", parameters, shows_progress=not as_json)
    else:
        with progress_bar("forecast", is_shown=not as_json) as show:
            report = run_described(file, compare or (), show).report()
    if out is not None:
        write_report(report, out)
        if can_plot():
            write_plots(report, out)
        else:
            print("kilonova: no plots: matplotlib is not installed (the extra kilonova[plots])", file=sys.stderr)
    if as_json:
        print_json(report)
        return
    console = output_console()
    console.print(policies_table(report))
    console.print()
    console.print(Text(summary(report), style="dim"))
