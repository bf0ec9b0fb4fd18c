# SPDX-License-Identifier: Apache-2.0
"""Commands of ``kilonova`` as commands of the stock client, with its session instead of ``--data`` and ``--os-cloud``.

The parser of the stock client describes a command for its help and refuses bad options. The command itself parses the
same arguments again and runs as under ``kilonova``, with the same output and the same exit code.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from osc_lib.command.command import Command

from kilonova.cli import application
from kilonova.cli.cloud.options import using

#: Options that select a cloud, which the stock client has its own ones for.
_OF_CLOUD = frozenset({"data", "os_cloud"})


class _Parser(argparse.ArgumentParser):
    """A parser that also keeps the arguments as they were typed."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found = super().parse_args(args, namespace)
        found.typed = list(args or ())
        return found


class KilonovaCommand(Command):  # type: ignore[misc]  # osc-lib has no types
    """A command of ``kilonova``. ``words``: its name and those of its subcommand."""

    words: tuple[str, ...] = ()

    def get_description(self) -> str:
        return _typed_command(self.words).help or ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _Parser(prog=prog_name, description=self.get_description(), allow_abbrev=False)
        for parameter in _typed_command(self.words).params:
            if parameter.name not in _OF_CLOUD:
                _describe(parser, parameter)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and return its exit code; the stock client would replace an error's code by 1."""
        connection = self.app.client_manager.scheduler
        with using(connection):
            return application.run(application.build(self.words[0]), [*self.words, *parsed_args.typed])

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return self.run(parsed_args)


def command(*words: str) -> type[KilonovaCommand]:
    """Return the command ``kilonova WORDS…`` as a class for an entry point."""
    return type("".join(map(str.title, words)), (KilonovaCommand,), {"words": words, "__module__": __name__})


@cache
def _typed_command(words: Sequence[str]) -> Any:
    """Return the command as typer has it, with its help and its parameters."""
    found: Any = application.build(words[0])
    for word in words:
        found = found.commands[word]
    return found


def _describe(parser: argparse.ArgumentParser, parameter: Any) -> None:
    """Add a parameter of typer to a parser of the stock client."""
    if parameter.param_type_name == "argument":
        several = "*" if parameter.nargs == -1 else "?" if not parameter.required else None
        more: dict[str, Any] = {"nargs": several} if several else {}
        parser.add_argument(parameter.name, metavar=parameter.metavar, help=getattr(parameter, "help", None), **more)
        return
    names = list(_option_names(parameter))
    if not names or "--help" in names:
        return
    told: dict[str, Any] = {"dest": parameter.name, "help": (parameter.help or "").replace("%", "%%")}
    if parameter.is_flag:
        told["action"] = "store_true"
    else:
        told |= {"metavar": parameter.metavar, "action": "append" if parameter.multiple else "store"}
        told["required"] = parameter.required
    parser.add_argument(*names, **told)


def _option_names(parameter: Any) -> Iterator[str]:
    yield from (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-"))
