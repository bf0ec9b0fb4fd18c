# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute rotate-ticket-key``: creates a new signing key for tickets of image data."""

from typing import Annotated

import typer

from kilonova.cli.cloud.settings import ConfigFiles, DataFolder, settings_of_cloud
from kilonova.cli.commands import enrolment


def rotate_ticket_key(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Invalidate all earlier tickets within a minute.")
    ] = False,
) -> None:
    """Sign tickets for image data with a new key. The old key is valid until its tickets have expired."""
    from kilonova.db import ticket_keys  # noqa: PLC0415 - slow to import

    with enrolment.open_database(settings_of_cloud(config_file, data)) as database:
        database.write(lambda tx: ticket_keys.rotate(tx, drop_old=drop_old))
    print("Tickets are signed with a new key within a minute." + (" Older tickets are invalid." if drop_old else ""))
