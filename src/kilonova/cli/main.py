# SPDX-License-Identifier: Apache-2.0
"""Find the command that was asked for, load only that, and turn expected errors into one line and an exit code."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence

import typer

from kilonova.errors import NO_ROOM, ConfigurationError, InvalidRequest, KilonovaError, StorageFull, full_disk

# Each command is a function for typer, or a typer.Typer with commands of its own, in a module named after it.
COMMANDS: Mapping[str, str] = {
    "up": "kilonova.cli.up:up",
    "api": "kilonova.cli.api:api",
    "compute": "kilonova.cli.compute:app",
    "console-proxy": "kilonova.cli.console_proxy:console_proxy",
    "db": "kilonova.cli.db:app",
    "backup": "kilonova.cli.backup:backup",
    "restore": "kilonova.cli.backup:restore",
    "status": "kilonova.cli.status:app",
    "placement": "kilonova.cli.placement:app",
    "policy": "kilonova.cli.policy:app",
    "read-only": "kilonova.cli.read_only:app",
    "explain": "kilonova.cli.explain:explain",
    "whatif": "kilonova.cli.whatif:whatif",
    "audit": "kilonova.cli.audit:app",
    "hosts": "kilonova.cli.hosts:app",
    "images": "kilonova.cli.images:images",
    "servers": "kilonova.cli.servers:app",
    "simulate": "kilonova.cli.simulate:app",
    "workflows": "kilonova.cli.workflows:app",
    "demo": "kilonova.cli.demo:demo",
    "docs": "kilonova.cli.docs:app",
}

# Whatever typer raises for arguments it cannot use, whichever library it has that from.
_USAGE_ERRORS = tuple(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__module__.startswith("typer")
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, 1 for a failure, 2 for input that has to change."""
    argv = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        result = _application(argv[0])(args=argv, prog_name="kilonova", standalone_mode=False)
    except _USAGE_ERRORS as error:
        return _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (ConfigurationError, InvalidRequest) as error:
        return _complain(error.message, 2)
    except StorageFull as error:
        return _complain(error.what, 1)
    except KilonovaError as error:
        return _complain(error.message, 1)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return _complain(full_disk(error).what, 1)
    except typer.Abort:
        return _complain("interrupted", 130)
    return result if isinstance(result, int) else 0


def _complain(message: str, code: int) -> int:
    print(f"kilonova: {message}", file=sys.stderr)
    return code


def _application(wanted: str) -> typer.Typer:
    """Build the application with the one command that is wanted, or with all of them for help and for mistakes."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

    @app.callback()
    def kilonova() -> None:
        """OpenStack Compute and Placement in one process. `kilonova COMMAND --help` says more."""

    for name, target in COMMANDS.items():
        module, _, attribute = target.partition(":")
        if (wanted in COMMANDS and wanted != name) or importlib.util.find_spec(module) is None:
            continue
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app
