# SPDX-License-Identifier: Apache-2.0
"""`kilonova compute`: agents in processes of their own, which know the broker and nothing else of a cloud."""

import logging
from typing import Annotated

import typer

from kilonova.cli.commands import enrolment, ticket_keys
from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)
app = typer.Typer(
    help="Run an agent of hosts in a process of its own; enrol and revoke agents.", invoke_without_command=True
)


@app.callback()
def compute(
    context: typer.Context,
    config_file: Annotated[
        list[str] | None, typer.Option("--config-file", help="Configuration file; later ones win.")
    ] = None,
) -> None:
    """Serve the hypervisors of the configuration file over the broker, until told to end."""
    if context.invoked_subcommand is not None:
        return
    if not config_file:
        raise ConfigurationError("Name the configuration file of this process with --config-file.")
    _serve(config_file)


def _serve(config_file: list[str]) -> None:
    from kilonova.cli.wiring.agent_process import make_agent_process  # noqa: PLC0415 - slow to import
    from kilonova.cli.wiring.log import configure_log, reread_debug  # noqa: PLC0415 - start-up time
    from kilonova.config.load import load_agent_settings  # noqa: PLC0415 - start-up time
    from kilonova.server.serving import serve_until_told  # noqa: PLC0415 - start-up time

    settings = load_agent_settings(config_file)
    process = make_agent_process(settings)
    configure_log(settings.log)
    for option in settings.needless:
        LOG.warning("%s is set, and an agent needs none: whoever breaks into this machine has it", option)
    serve_until_told(process, reread_debug(lambda: load_agent_settings(config_file).log))


enrolment.add_commands(app)
app.command()(ticket_keys.rotate_ticket_key)
