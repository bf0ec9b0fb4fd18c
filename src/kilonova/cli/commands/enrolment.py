# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute enrol``, ``agents`` and ``revoke``: which agents are enrolled, and for which hosts.

The commands write to the database; running control processes apply the change within seconds.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kilonova.cli.cloud.printing import counted, output_console, plain_table, print_json
from kilonova.cli.cloud.settings import ConfigFiles, DataFolder, settings_of_cloud
from kilonova.errors import Conflict, InvalidRequest, NotFound

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.cli.up.agent_account import AgentAccount, Certificate
    from kilonova.config.settings import Settings
    from kilonova.db.database import Database
    from kilonova.db.enrolment import EnrolledAgent

_HOSTS_SHOWN = 4
_NUMBERS = re.compile(r"([0-9]+)")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name, which is also its user at the broker.")]
Result = TypeVar("Result")


def add_commands(app: typer.Typer) -> None:
    """Add these commands to the Typer app of ``kilonova compute``."""
    app.command()(enrol)
    app.command()(agents)
    app.command()(revoke)


def enrol(
    name: Name,
    host: Annotated[list[str] | None, typer.Option(metavar="HOST", help="A host of this agent; repeatable.")] = None,
    hosts_from: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=("File with hosts of this agent, one per line; # starts a comment.")),
    ] = None,
    remove_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A host that this agent no longer has; repeatable.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The agent's configuration file, to be written.", show_default="NAME.conf"),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=("File to which RabbitMQ definitions (account and queues) are written.")),
    ] = None,
    cert_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Client certificate in place of a password: a file on the agent's machine. The certificate's common "
                "name must be NAME."
            ),
        ),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key, unless it is in --cert-file.")
    ] = None,
    config_file: ConfigFiles = None,
    data: DataFolder = None,
) -> None:
    """Enrol an agent for hosts, and write its configuration file. Repeat this for a new password or more hosts."""
    from kilonova.bundled_services.private_file import write_private  # noqa: PLC0415 - start-up time
    from kilonova.cli.up.agent_account import AgentAccount  # noqa: PLC0415 - start-up time
    from kilonova.db import enrolment  # noqa: PLC0415 - start-up time

    settings = settings_of_cloud(config_file, data)
    account = AgentAccount.make(name, settings.rabbit, _certificate(cert_file, key_file))
    conf = (output or Path(f"{name}.conf")).expanduser()
    for path in filter(None, (conf, definitions)):
        _require_writable(path)
    hosts = [*(host or ()), *(_hosts_in(hosts_from) if hosts_from else ())]
    with open_database(settings) as database:
        known = _find(database, name)
        agent = _write(database, lambda tx: enrolment.enrol(tx, name, hosts, remove_host or ()))
    write_private(conf, account.conf())
    if definitions is not None:
        write_private(definitions, account.definitions())
    console = output_console()
    console.print(f"Agent {name} is enrolled for {counted(len(agent.hosts), 'host')}: {_hosts_text(agent.hosts)}.")
    console.print(f"The agent's configuration, with {_proof(account)}: {conf}", soft_wrap=True)
    had_account = known is not None and known.revoked_at is None
    print("Create the agent's account at the broker:")
    if definitions is not None:
        _print_commands([f"rabbitmqctl import_definitions {shlex.quote(str(definitions))}"])
    else:
        if account.password is not None:
            print(f"  (the first command asks for the password, which is in {conf})")
        _print_commands(account.commands(is_known=had_account))


def agents(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the agents as JSON, with all their hosts.")] = False,
) -> None:
    """List enrolled and revoked agents."""
    from kilonova.db import enrolment  # noqa: PLC0415 - start-up time

    with open_database(settings_of_cloud(config_file, data)) as database, database.read() as connection:
        found = enrolment.list_all(connection)
    if as_json:
        print_json({"agents": [_as_json(agent) for agent in found]})
        return
    console = output_console()
    if not found:
        console.print("No agent is enrolled. Enrol one: kilonova compute enrol NAME --host HOST")
        return
    table = plain_table()
    for title in ("Agent", "Hosts", "", "Enrolled", "Revoked"):
        table.add_column(title, overflow="fold")
    for agent in found:
        revoked = "" if agent.revoked_at is None else _time(agent.revoked_at)
        row = (agent.name, str(len(agent.hosts)), _hosts_text(agent.hosts), _time(agent.created_at), revoked)
        table.add_row(*row, style="dim" if revoked else "")
    console.print(table)


def revoke(name: Name, config_file: ConfigFiles = None, data: DataFolder = None) -> None:
    """Revoke an agent: its messages are ignored. Its hosts and their servers remain, but the hosts have no agent."""
    from kilonova.cli.up.agent_account import revocation_commands  # noqa: PLC0415 - start-up time
    from kilonova.db import enrolment  # noqa: PLC0415 - start-up time

    settings = settings_of_cloud(config_file, data)
    with open_database(settings) as database:
        agent = _write(database, lambda tx: enrolment.revoke(tx, name))
    console = output_console()
    console.print(f"Agent {name} is revoked: within seconds its messages are ignored, and its hosts count as down.")
    url = settings.rabbit.transport_url
    print("Delete the agent's account at the broker, too:")
    _print_commands(revocation_commands(name, url.virtual_host if url else "/"))
    if agent.hosts:
        host = agent.hosts[0]
        console.print(
            f"To enrol another agent for the same hosts: kilonova compute enrol NAME --host {host} …", soft_wrap=True
        )


# --- input ------------------------------------------------------------------------------------------------------------


def _certificate(cert_file: Path | None, key_file: Path | None) -> "Certificate | None":
    from kilonova.cli.up.agent_account import Certificate  # noqa: PLC0415 - start-up time

    if cert_file is None:
        if key_file is not None:
            raise InvalidRequest("--key-file needs --cert-file")
        return None
    return Certificate(cert_file, key_file)


def _hosts_in(file: Path) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidRequest(f"--hosts-from {file} cannot be read: {why}") from error
    named = (line.partition("#")[0].strip() for line in lines)
    return filter(None, named)


def _require_writable(path: Path) -> None:
    """Raise InvalidRequest if a file cannot be written.

    Call this before creating a password that must be saved.
    """
    if path.is_dir():
        raise InvalidRequest(f"{path} is a folder")
    if not path.parent.is_dir():
        raise InvalidRequest(f"{path} cannot be written: {path.parent} is not a folder")


# --- the database -----------------------------------------------------------------------------------------------------


@contextmanager
def open_database(settings: "Settings") -> "Iterator[Database]":
    from kilonova.db import schema  # noqa: PLC0415 - start-up time
    from kilonova.db.database import Database  # noqa: PLC0415 - start-up time

    with closing(Database(settings.database.connection)) as database:
        schema.require_present(database)
        yield database


def _find(database: "Database", name: str) -> "EnrolledAgent | None":
    from kilonova.db import enrolment  # noqa: PLC0415 - start-up time

    try:
        with database.read() as connection:
            return enrolment.get(connection, name)
    except NotFound:
        return None


def _write(database: "Database", job: Callable[..., Result]) -> Result:
    """Run a write transaction.

    Convert Conflict and NotFound to InvalidRequest, which has the exit code of bad input.
    """
    try:
        return database.write(job)
    except (Conflict, NotFound) as error:
        raise InvalidRequest(error.message) from error


# --- output -----------------------------------------------------------------------------------------------------------


def _proof(account: "AgentAccount") -> str:
    return "a certificate" if account.password is None else "its password, which is stored nowhere else"


def _print_commands(commands: Sequence[str]) -> None:
    for command in commands:  # print() and not the rich console, which would wrap lines that users copy
        print(f"  {command}")


def _hosts_text(named: Sequence[str]) -> str:
    hosts = sorted(named, key=lambda host: [part.zfill(9) if part.isdigit() else part for part in _NUMBERS.split(host)])
    more = f" … {hosts[-1]}" if len(hosts) > _HOSTS_SHOWN else ""
    return ", ".join(hosts[:_HOSTS_SHOWN] if not more else hosts[: _HOSTS_SHOWN - 1]) + more


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _as_json(agent: "EnrolledAgent") -> dict[str, object]:
    revoked_at = agent.revoked_at and f"{agent.revoked_at.isoformat()}Z"
    created_at = f"{agent.created_at.isoformat()}Z"
    return {"name": agent.name, "hosts": list(agent.hosts), "created_at": created_at, "revoked_at": revoked_at}
