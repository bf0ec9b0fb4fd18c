# SPDX-License-Identifier: Apache-2.0
"""`kilonova db`: schema upgrades, purging and online data migrations of the database."""

from datetime import datetime
from typing import Annotated

import typer
from rich.progress import Progress

from kilonova.cli.cloud.settings import ConfigFiles, DataFolder, settings_of_cloud
from kilonova.errors import InvalidRequest

#: Response timeout of the database during schema changes, in seconds. It is long because no request waits for them.
_TIMEOUT_S = 120.0

_MAYBE_MORE, _SOME_FAILED = 1, 2

app = typer.Typer(no_args_is_help=True, help="Upgrade the database schema and data, and purge deleted servers.")


@app.command()
def upgrade(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
) -> None:
    """Apply all missing schema migrations. Idempotent."""
    from kilonova.db import schema  # noqa: PLC0415 - slow to import and needed by this command only
    from kilonova.db.database import Database  # noqa: PLC0415 - start-up time

    database = Database(settings_of_cloud(config_file, data).database.connection, response_timeout_s=_TIMEOUT_S)
    try:
        before = schema.current(database)
        schema.upgrade(database)
        after = schema.current(database)
    finally:
        database.close()
    print(f"{database.url.render_as_string(hide_password=True)}: {before or 'empty'} -> {after}")


@app.command()
def purge(
    before: Annotated[
        datetime,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Purge servers deleted before this date or time (UTC)."
        ),
    ],
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the rows that would be removed.")] = False,
) -> None:
    """Purge deleted servers with their faults, decisions and request specs. The cloud may be running."""
    from kilonova.clock import utc_now  # noqa: PLC0415 - start-up time
    from kilonova.db import purge as purging  # noqa: PLC0415 - start-up time
    from kilonova.db import schema  # noqa: PLC0415 - start-up time
    from kilonova.db.database import Database  # noqa: PLC0415 - start-up time

    if before > utc_now():
        raise InvalidRequest(f"--before {before.isoformat()} is in the future: it would remove every deleted server")
    settings = settings_of_cloud(config_file, data)
    database = Database(settings.database.connection)
    try:
        schema.require_present(database)
        with database.read(patient=True) as connection:
            counts = purging.kept_for_deleted(connection, before)
        if not dry_run:
            total = counts["instances"]
            with Progress(disable=not total, transient=True) as progress:
                task = progress.add_task("Deleted servers", total=total)
                counts = purging.purge(database, before, on_progress=lambda count: progress.update(task, advance=count))
    finally:
        database.close()
    found = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items()) if count)
    print(f"{'Would remove' if dry_run else 'Removed'}: {found or 'nothing'}")


@app.command("online-data-migrations")
def online_data_migrations(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    max_count: Annotated[int | None, typer.Option("--max-count", metavar="N", help="Stop after N rows.")] = None,
) -> int:
    """Migrate data of earlier releases to the current format. The cloud may be running.

    Can be interrupted and repeated.
    Exit code 0: complete; 1: --max-count was reached, so more rows may be left; 2: some rows cannot be migrated.
    """
    from kilonova.db import online_migrations, schema  # noqa: PLC0415 - start-up time
    from kilonova.db.database import Database  # noqa: PLC0415 - start-up time
    from kilonova.db.online_migrations.online_migration import run  # noqa: PLC0415 - start-up time

    if max_count is not None and max_count < 1:
        raise InvalidRequest("--max-count must be at least 1")
    settings = settings_of_cloud(config_file, data)
    database = Database(settings.database.connection)
    left, failed = max_count, False
    try:
        schema.require_present(database)
        for migration in online_migrations.ALL:
            outcome = run(database, migration, left)
            left = None if left is None else left - outcome.found
            failed = failed or outcome.failed
            print(f"{outcome.name}: {outcome.found} rows found, {outcome.done} rows migrated")
            if left == 0:
                break
    finally:
        database.close()
    if failed:
        return _SOME_FAILED
    return _MAYBE_MORE if left == 0 else 0


@app.callback()
def db() -> None:
    """Upgrade the database schema and data, and purge deleted servers."""
