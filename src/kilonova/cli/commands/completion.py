# SPDX-License-Identifier: Apache-2.0
"""``kilonova completion``: prints the script by which a shell completes commands, options and values."""

from enum import Enum
from typing import Annotated

import typer

from kilonova.cli.shell_completion import SCRIPTS, candidates


class Shell(Enum):
    """A shell with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print a script that makes a shell complete `kilonova` commands. Example: eval "$(kilonova completion bash)"."""
    print(SCRIPTS[shell.value], end="")


def completion_words(words: Annotated[list[str] | None, typer.Argument(help="The words so far.")] = None) -> None:
    """Print what the last word may become, one possibility for each line. The scripts call this command."""
    for each in candidates(words or ()):
        print(each)
