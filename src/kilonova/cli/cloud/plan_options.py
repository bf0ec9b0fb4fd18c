# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that plan moves of servers."""

from typing import Annotated

import typer

PerHost = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Most moves from or to one host at the same time.")
]
LockedToo = Annotated[bool, typer.Option("--locked", help="Move locked servers, too.")]
Save = Annotated[bool, typer.Option("--save", help="Save the moves as a plan, to be applied later.")]
Apply = Annotated[bool, typer.Option("--apply", help="Save the moves as a plan, and apply it.")]
WaitOfApply = Annotated[bool, typer.Option("--wait", help="With --apply: wait until the plan has ended.")]


def require_apply(*, wait: bool, apply: bool) -> None:
    """Raise BadParameter if a command is to wait for a plan that it does not apply."""
    if wait and not apply:
        raise typer.BadParameter("The option --wait needs --apply.")
