# SPDX-License-Identifier: Apache-2.0
"""`kilonova db`: look after the database."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look after the database.")


@app.command()
def upgrade(
    config_file: Annotated[list[str], typer.Option("--config-file", help="Configuration file; later ones win.")],
) -> None:
    """Apply every missing migration. Safe to repeat."""
    from kilonova import config  # noqa: PLC0415 - slow to import and needed by this command only
    from kilonova.db import schema  # noqa: PLC0415
    from kilonova.db.database import Database  # noqa: PLC0415

    database = Database(config.load(config_file).database_url)
    try:
        before = schema.current(database)
        schema.upgrade(database)
        after = schema.current(database)
    finally:
        database.close()
    print(f"{database.url.render_as_string(hide_password=True)}: {before or 'empty'} -> {after}")


@app.callback()
def db() -> None:
    """Look after the database."""
