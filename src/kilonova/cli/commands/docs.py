# SPDX-License-Identifier: Apache-2.0
"""`kilonova docs`: pages of the documentation that are made from the code."""

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(help="Print pages of docs/ that are made from the code.", no_args_is_help=True)


class Form(StrEnum):
    MARKDOWN = "markdown"
    SVG = "svg"


@app.callback()
def _docs() -> None:
    """Print pages of docs/ that are made from the code."""


@app.command()
def states(
    form: Annotated[Form, typer.Option("--format", help="A table of all actions, or a picture.")] = Form.MARKDOWN,
) -> None:
    """Print where each action of a server may start, which tasks it shows and where it ends."""
    from kilonova.cli.pages import states  # noqa: PLC0415 - start-up time

    print(states.markdown() if form is Form.MARKDOWN else states.svg(), end="")


@app.command()
def notifications() -> None:
    """Print which notifications there are, from whom, and what they look like."""
    from kilonova.cli.pages import notifications  # noqa: PLC0415 - start-up time

    print(notifications.markdown(), end="")
