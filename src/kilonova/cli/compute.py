# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute``: agents in processes of their own, and who may be one."""

import typer

from kilonova.cli import enrolment, ticket_keys

app = typer.Typer(no_args_is_help=True, help="Say which processes may be agents of which hosts.")


@app.callback()
def compute() -> None:
    """Say which processes may be agents of which hosts."""


enrolment.add_commands(app)
app.command()(ticket_keys.rotate_ticket_key)
