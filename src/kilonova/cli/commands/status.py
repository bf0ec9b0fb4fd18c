# SPDX-License-Identifier: Apache-2.0
"""`kilonova status`: checks before or after an upgrade, in the format of ``nova-status``; list of periodic tasks."""

import logging
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from kilonova.cli.cloud.printing import print_json
from kilonova.cli.cloud.settings import AsJson, ConfigFiles, DataFolder, settings_of_cloud
from kilonova.cli.commands.periodic_tasks import tasks
from kilonova.errors import ConfigurationError

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.cli.commands.upgrade_checks import Checked

app = typer.Typer(no_args_is_help=True, help="Check whether a cloud is ready for an upgrade, and list periodic tasks.")
app.command("tasks")(tasks)
_UNEXPECTED = 255
_WIDTH = 100
_TITLE = "Upgrade Check Results"


@app.command("upgrade-check")
def upgrade_check(config_file: ConfigFiles = None, data: DataFolder = None, as_json: AsJson = False) -> int:
    """Check configuration, database, agents and running workflows before or after an upgrade.

    Exit code 0: success; 1: warnings; 2: a problem must be solved before the upgrade; 255: a check failed to run.
    """
    from kilonova.cli.commands.upgrade_checks import check_all  # noqa: PLC0415 - start-up time

    settings = settings_of_cloud(config_file, data)
    logging.getLogger("kilonova").addHandler(logging.NullHandler())  # findings are printed, not logged
    try:
        checked = list(check_all(settings))
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - the exit code reports the failure
        print(f"kilonova: a check failed to run: {type(error).__name__}: {error}")
        return _UNEXPECTED
    if as_json:
        told = [{"check": one.name, "result": one.result.word, "details": one.details} for one in checked]
        print_json({"checks": told})
    else:
        print(table_of(checked))
    return max(one.result for one in checked)


def table_of(checked: Iterable["Checked"]) -> str:
    """Return the results as a text table in the format of ``nova-status``."""
    blocks = [[_TITLE]]
    for one in checked:
        details = textwrap.wrap(f"Details: {one.details or 'None'}", _WIDTH, subsequent_indent="  ")
        blocks.append([f"Check: {one.name}", f"Result: {one.result.word}", *details])
    width = max(len(line) for block in blocks for line in block)
    rule = f"+{'-' * (width + 2)}+"
    framed = [line for block in blocks for line in (*(f"| {each:<{width}} |" for each in block), rule)]
    return "\n".join([rule, *framed])


@app.callback()
def status() -> None:
    """Check whether a cloud is ready for an upgrade, and list periodic tasks."""
