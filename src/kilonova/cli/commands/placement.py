# SPDX-License-Identifier: Apache-2.0
"""`kilonova placement`: audit and repair of inventories and allocations."""

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kilonova.cli.cloud.printing import print_json
from kilonova.cli.cloud.settings import ConfigFiles, DataFolder, settings_of_cloud
from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import ConfigurationError, KilonovaError, Unavailable
from kilonova.records import dataclass

if TYPE_CHECKING:
    from kilonova.db.audits.finding import Finding
    from kilonova.db.database import Database

app = typer.Typer(no_args_is_help=True, help="Find and repair inconsistencies of inventories and allocations.")

#: Maximum number of rounds of audit and repair. A repair may reveal an inconsistency that only the next audit can find.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finding and its state: ``found`` (repair not requested), ``repaired``, or ``left`` (failed for ``reason``)."""

    finding: "Finding"
    state: str
    reason: str = ""


@app.callback()
def placement() -> None:
    """Find and repair inconsistencies of inventories and allocations."""


@app.command()
@one_is_an_answer()
def audit(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    fix: Annotated[bool, typer.Option("--fix", help="Repair each finding, in a transaction of its own.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Find and explain inconsistencies in the database; exit code 1 if any are found, or if --fix leaves any."""
    from kilonova.db.database import Database  # noqa: PLC0415 - slow to import and needed by this command only

    database = Database(settings_of_cloud(config_file, data).database.connection)
    with closing(database):
        _require_usable(database)
        outcomes = _repair_all(database) if fix else _find_all(database)
    _print_json(outcomes) if as_json else _print(outcomes)
    return 1 if any(outcome.state != "repaired" for outcome in outcomes) else 0


def _require_usable(database: "Database") -> None:
    """Raise ConfigurationError unless the database has this release's schema. An audit does not upgrade the schema."""
    from kilonova.db import schema  # noqa: PLC0415 - start-up time

    where = database.url.render_as_string(hide_password=True)
    if database.is_sqlite and not Path(str(database.url.database)).is_file():
        raise ConfigurationError(f"[database] connection: {where} does not exist.")
    found = schema.current(database)
    if found != schema.head():
        raise ConfigurationError(
            f"The database is at revision {found or 'none'}, this release needs {schema.head()}: "
            "run `kilonova db upgrade`."
        )


def _find_all(database: "Database") -> list[Outcome]:
    return [Outcome(finding, "found") for finding in _findings(database)]


def _findings(database: "Database") -> Sequence["Finding"]:
    from kilonova.db.audits import audit as checks  # noqa: PLC0415 - start-up time

    with database.read(patient=True) as connection:
        return checks.find_all(connection)


def _repair_all(database: "Database") -> list[Outcome]:
    from kilonova.cli.wiring.database_lock import lock_database  # noqa: PLC0415 - start-up time

    try:
        lock = lock_database(database)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"--fix cannot run while the control process runs: {error.message} Stop it first; "
            "without --fix the audit can run at any time."
        ) from error
    with lock or nullcontext():
        repaired: list[Outcome] = []
        for _ in range(_ROUNDS):
            outcomes = [_repair(database.write, finding) for finding in _findings(database)]
            repaired += [outcome for outcome in outcomes if outcome.state == "repaired"]
            if all(outcome.state != "repaired" for outcome in outcomes):
                return [*repaired, *outcomes]
        return [
            *repaired,
            *(Outcome(finding, "left", "it reappeared after its repair") for finding in _findings(database)),
        ]


def _repair(write: Callable[[Any], None], finding: "Finding") -> Outcome:
    try:
        write(finding.repair)
    except Unavailable:
        raise
    except KilonovaError as error:
        return Outcome(finding, "left", error.message)
    return Outcome(finding, "repaired")


def _print_json(outcomes: Sequence[Outcome]) -> None:
    names = ("kind", "where", "what", "why", "remedy")
    listed = [
        {name: getattr(outcome.finding, name) for name in names} | {"state": outcome.state, "reason": outcome.reason}
        for outcome in outcomes
    ]
    print_json({"findings": listed})


def _print(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        finding = outcome.finding
        print(f"{finding.kind}: {finding.where}")
        print(f"    {finding.what}, but {finding.why}.")
        if outcome.state == "found":
            print(f"    --fix {finding.remedy}.")
        elif outcome.state == "repaired":
            print(f"    Repaired: {finding.remedy}.")
        else:
            print(f"    Not repaired: {outcome.reason}")
    repaired = sum(outcome.state == "repaired" for outcome in outcomes)
    left = len(outcomes) - repaired
    if not outcomes:
        print("No inconsistencies found.")
    elif repaired:
        print(f"Inconsistencies: {repaired} repaired, {left} left.")
    else:
        print(f"Inconsistencies: {left} found.")
