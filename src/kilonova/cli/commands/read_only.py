# SPDX-License-Identifier: Apache-2.0
"""`kilonova read-only`: makes the APIs refuse changes, for instance to inspect a restored database."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.cloud.settings import ConfigFiles, DataFolder, settings_of_cloud
from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import InvalidRequest

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.db.database import Database

app = typer.Typer(no_args_is_help=True, help="Make the APIs read-only, while the cloud runs or before it starts.")
_LONGEST_REASON = 255


@app.command()
def on(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    reason: Annotated[str, typer.Option(help="Reason, shown to clients.")] = "",
) -> None:
    """Answer 503 to requests that change anything, in every control process. Running operations continue."""
    from kilonova.api.read_only import KNOWN_FOR_S  # noqa: PLC0415 - start-up time
    from kilonova.db import switches  # noqa: PLC0415 - start-up time

    if len(reason) > _LONGEST_REASON:
        raise InvalidRequest(f"--reason is longer than {_LONGEST_REASON} characters")
    with _database(config_file, data) as database:
        database.write(lambda tx: switches.turn_on(tx, switches.READ_ONLY, reason))
    time.sleep(KNOWN_FOR_S)
    print("The APIs are read-only, in every control process.")


@app.command()
def off(config_file: ConfigFiles = None, data: DataFolder = None) -> None:
    """End the read-only mode: accept all requests again."""
    from kilonova.api.read_only import KNOWN_FOR_S  # noqa: PLC0415 - start-up time
    from kilonova.db import switches  # noqa: PLC0415 - start-up time

    with _database(config_file, data) as database:
        database.write(lambda tx: switches.turn_off(tx, switches.READ_ONLY))
    time.sleep(KNOWN_FOR_S)
    print("The APIs accept changes again.")


@app.command()
@one_is_an_answer()
def status(config_file: ConfigFiles = None, data: DataFolder = None) -> int:
    """Show whether the APIs are read-only; exit code 1 if they are."""
    from kilonova.db import switches  # noqa: PLC0415 - start-up time

    with _database(config_file, data) as database, database.read() as connection:
        switch = switches.find(connection, switches.READ_ONLY)
    if switch is None:
        print("The APIs accept changes.")
        return 0
    print(f"The APIs are read-only since {switch.since:%Y-%m-%dT%H:%M:%SZ}: {switch.reason or 'no reason was given'}")
    return 1


@contextmanager
def _database(config_file: list[str] | None, data: Path | None) -> "Iterator[Database]":
    from kilonova.db import schema  # noqa: PLC0415 - start-up time
    from kilonova.db.database import Database  # noqa: PLC0415 - start-up time

    database = Database(settings_of_cloud(config_file, data).database.connection)
    try:
        schema.require_present(database)
        yield database
    finally:
        database.close()


@app.callback()
def read_only() -> None:
    """Make the APIs read-only, while the cloud runs or before it starts."""
