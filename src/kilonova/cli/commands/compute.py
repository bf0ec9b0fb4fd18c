# SPDX-License-Identifier: Apache-2.0
"""`kilonova compute`: runs an agent process, whose only access to the cloud is the broker; enrols agents and hosts."""

import logging

import typer

from kilonova.cli.cloud.settings import ConfigFiles
from kilonova.cli.commands import enrolment, joining, ticket_keys
from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)
app = typer.Typer(help="Run an agent process for hosts; enrol and revoke agents.", invoke_without_command=True)


@app.callback()
def compute(context: typer.Context, config_file: ConfigFiles = None) -> None:
    """Run the agents of the configured hosts over the broker, until a signal stops the process."""
    if context.invoked_subcommand is not None:
        return
    if not config_file:
        raise ConfigurationError("Set the configuration file of this process with --config-file.")
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
        LOG.warning(
            "%s is set, but agents do not need it: remove this secret, which an attacker on this machine could read",
            option,
        )
    serve_until_told(process, reread_debug(lambda: load_agent_settings(config_file).log))


enrolment.add_commands(app)
joining.add_commands(app)
app.command()(ticket_keys.rotate_ticket_key)
