# SPDX-License-Identifier: Apache-2.0
"""`kilonova docs`: prints pages of docs/ that are generated from the code."""

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(help="Print pages of docs/ that are generated from the code.", no_args_is_help=True)


class Form(StrEnum):
    MARKDOWN = "markdown"
    SVG = "svg"


@app.callback()
def _docs() -> None:
    """Print pages of docs/ that are generated from the code."""


@app.command()
def states(
    form: Annotated[Form, typer.Option("--format", help="A table of all actions, or a picture.")] = Form.MARKDOWN,
) -> None:
    """Print each action of servers with its initial states, its task states and its final state."""
    from kilonova.cli.pages import states  # noqa: PLC0415 - start-up time

    print(states.markdown() if form is Form.MARKDOWN else states.svg(), end="")


@app.command()
def notifications() -> None:
    """Print all notifications with their publishers, payloads and samples."""
    from kilonova.cli.pages import notifications  # noqa: PLC0415 - start-up time

    print(notifications.markdown(), end="")


@app.command()
def operator_api() -> None:
    """Print the OpenAPI document of the operator API, as YAML."""
    from kilonova.cli.pages import operator_api  # noqa: PLC0415 - start-up time

    print(operator_api.yaml_text(), end="")
