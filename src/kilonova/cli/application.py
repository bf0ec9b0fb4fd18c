# SPDX-License-Identifier: Apache-2.0
"""The ``kilonova`` application: imports only the requested command, and reports errors as one line and an exit code."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import kilonova
from kilonova.errors import (
    NO_ROOM,
    ConfigurationError,
    InvalidRequest,
    KilonovaError,
    StorageFull,
    Unavailable,
    full_disk,
)

# Heading of the help → command → "module:attribute". The attribute is a function for typer, or a typer.Typer with
# subcommands; the module is named after the command. The help keeps this order.
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "A cloud on this machine": {
        "up": "kilonova.cli.commands.up:up",
        "demo": "kilonova.cli.commands.demo:demo",
        "simulate": "kilonova.cli.commands.simulate:app",
        "backup": "kilonova.cli.commands.backup:backup",
        "restore": "kilonova.cli.commands.backup:restore",
    },
    "Why servers are where they are": {
        "explain": "kilonova.cli.commands.explain:explain",
        "whatif": "kilonova.cli.commands.whatif:whatif",
        "top": "kilonova.cli.commands.top:top",
        "capacity": "kilonova.cli.commands.capacity:capacity",
        "drain": "kilonova.cli.commands.drain:drain",
        "rebalance": "kilonova.cli.commands.rebalance:rebalance",
        "forecast": "kilonova.cli.commands.forecast:forecast",
        "plan": "kilonova.cli.commands.plan:app",
        "maintenance": "kilonova.cli.commands.maintenance:app",
        "diff": "kilonova.cli.commands.diff:diff",
        "preview": "kilonova.cli.commands.preview:app",
        "jobs": "kilonova.cli.commands.jobs:app",
        "audit": "kilonova.cli.commands.audit:app",
    },
    "Look after a cloud": {
        "hosts": "kilonova.cli.commands.hosts:app",
        "images": "kilonova.cli.commands.images:images",
        "servers": "kilonova.cli.commands.servers:app",
        "workflows": "kilonova.cli.commands.workflows:app",
        "placement": "kilonova.cli.commands.placement:app",
        "policy": "kilonova.cli.commands.policy:app",
        "read-only": "kilonova.cli.commands.read_only:app",
        "db": "kilonova.cli.commands.db:app",
        "status": "kilonova.cli.commands.status:app",
    },
    "Processes of a cloud on several machines": {
        "api": "kilonova.cli.commands.api:api",
        "compute": "kilonova.cli.commands.compute:app",
        "console-proxy": "kilonova.cli.commands.console_proxy:console_proxy",
        "dashboard": "kilonova.cli.commands.dashboard:dashboard",
    },
    "Documentation": {
        "docs": "kilonova.cli.commands.docs:app",
        "completion": "kilonova.cli.commands.completion:completion",
    },
}

#: Commands that this program runs itself; no help and no page lists them.
HIDDEN: Mapping[str, str] = {
    "job-worker": "kilonova.cli.commands.job_worker:job_worker",
    "completion-words": "kilonova.cli.commands.completion:completion_words",
}

# All base classes of typer's exception for invalid arguments. An exception of a library that typer contains may have
# only some of these base classes.
_USAGE_ERRORS = tuple(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__module__.startswith("typer")
)


def run(command: Callable[..., Any], argv: Sequence[str]) -> int:
    """Run ``command``, a result of :func:`build`, with the arguments ``argv``. Return the exit code of the process."""
    if sys.stdout is None:  # stdout was closed before the start: discard all output
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - stays open until the process exits
    try:
        result = command(args=argv, prog_name="kilonova", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERRORS as error:
        return _complain(error.format_message(), code=2)  # type: ignore[attr-defined]
    except StorageFull as error:
        return _complain(error.what, code=1)
    except Unavailable as error:
        # from the second line on, the message is the output of a child process
        return _complain(*error.message.splitlines(), code=1)
    except (ConfigurationError, InvalidRequest) as error:
        return _complain(error.message, code=2)
    except KilonovaError as error:
        return _complain(error.message, code=1)
    except BrokenPipeError:
        _write_no_more()  # the reader has closed the pipe, as `head` does
        return 1
    except OSError as error:
        if error.errno in NO_ROOM:
            _write_no_more()
            return _complain(full_disk(error).what, code=1)
        if error.filename is None:
            raise
        return _complain(f"{os.fsdecode(error.filename)}: {error.strerror}", code=1)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", code=130)
    return result if isinstance(result, int) else 0


def _complain(*lines: str, code: int) -> int:
    """Print each text as one line, with control characters replaced by spaces."""
    first, *further = map(_as_line, lines or ("",))
    print(f"kilonova: {first}", *further, sep="\n", file=sys.stderr)
    return code


def _as_line(text: str) -> str:
    """Return a text with line breaks and control characters replaced by spaces."""
    return "".join(each if each.isprintable() else " " for each in " ".join(text.splitlines()))


def _write_no_more() -> None:
    """Discard buffered output: flushing it at exit would fail."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def build(wanted: str) -> Callable[..., Any]:
    """Build the application with the command ``wanted`` only; with all commands if there is no such command."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

    @app.callback()
    def all_commands(
        *,
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
        ] = False,
    ) -> None:
        """OpenStack Compute and Placement in one process. See `kilonova COMMAND --help`."""

    is_known = wanted in HIDDEN or any(wanted in commands for commands in COMMANDS.values())
    for heading, commands in COMMANDS.items():
        for name, target in commands.items():
            if is_known and wanted != name:
                continue
            command = _attribute(target)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=heading)
            else:
                app.command(name, rich_help_panel=heading)(command)
    if wanted in HIDDEN:
        app.command(wanted, hidden=True)(_attribute(HIDDEN[wanted]))
    return typer.main.get_command(app)


def _attribute(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kilonova {kilonova.__version__}")
        raise typer.Exit
