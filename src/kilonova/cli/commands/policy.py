# SPDX-License-Identifier: Apache-2.0
"""`kilonova policy`: lists access rules, writes a sample policy file, and checks policy files."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kilonova.cli.cloud.printing import counted, output_console, plain_table, print_json
from kilonova.cli.cloud.settings import AsJson, ConfigFiles, DataFolder, settings_of_cloud
from kilonova.cli.up.data_folder import conf_of_folder
from kilonova.errors import ConfigurationError, InvalidRequest

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.api.policy import Credentials, Policy

_FROM_INPUT = "-"

app = typer.Typer(no_args_is_help=True, help="List access rules, and check policy files.")

PolicyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Policy file to use instead of [oslo_policy] policy_file.")
]
Filter = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT", help=("List only rules with this text in their name or in a route that they guard.")
    ),
]


@app.command("list")
def list_rules(
    text: Filter = None,
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    policy_file: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """List every rule with its current check, its default check if that differs, and the routes that it guards."""
    policy = _policy(_conf(config_file, data), policy_file)
    rules = [_described(policy, each) for each in sorted(policy.rules, key=lambda each: str(each.name))]
    rules = [each for each in rules if text is None or text in " ".join([each["name"], *each["routes"]])]
    if as_json:
        print_json({"rules": rules})
        return
    if not rules:
        print(f"No rule has {text!r} in its name or in a route that it guards.")
        return
    table = plain_table("Rule", "Who", "Guards")
    for each in rules:
        is_default = each["in_force"] == each["default"]
        who = each["in_force"] + ("" if is_default else f"\n(default: {each['default']})")
        table.add_row(each["name"], who, "\n".join(each["routes"]))
    output_console().print(table)


def _described(policy: "Policy", rule: Any) -> dict[str, Any]:
    routes = [f"{each['method']} {each['path']}" for each in getattr(rule, "operations", ())]
    former, in_force = rule.deprecated_rule, policy.check_of(rule.name)
    return {
        "name": rule.name,
        "description": rule.description,
        "default": rule.check_str,
        "in_force": rule.check_str if in_force == str(rule.check) else in_force,
        "former_name": former.name if former is not None and former.name != rule.name else None,
        "routes": routes,
    }


@app.command()
def sample(
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; default: standard output.")
    ] = None,
) -> None:
    """Write a policy.yaml in which every rule is listed with its default, commented out."""
    from kilonova.api.policy import BASE_RULES  # noqa: PLC0415 - start-up time
    from kilonova.cli.commands.policy_sample import sample_text  # noqa: PLC0415 - start-up time
    from kilonova.cli.wiring.apis import RULES  # noqa: PLC0415 - start-up time

    text = sample_text((*BASE_RULES, *RULES))
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidRequest(f"--output {output} exists already") from None
    except OSError as error:
        raise InvalidRequest(f"--output {output} cannot be written: {error.strerror}") from error


@app.command()
def check(
    config_file: ConfigFiles = None,
    data: DataFolder = None,
    policy_file: PolicyFile = None,
    rule: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check only this rule; exit code 1 if it refuses the caller.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Token of the caller, validated by Keystone; - reads it from standard input."
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="User id of the caller.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Project id of the caller's token.")] = None,
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="A role of the caller in the project; repeatable.")
    ] = None,
    target_project: Annotated[
        str | None, typer.Option(metavar="ID", help="Project of the requested resource; default: the caller's.")
    ] = None,
    target_user: Annotated[
        str | None, typer.Option(metavar="ID", help="Owner of the requested resource; default: the caller.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check the policy files; if a caller is given, show for each rule whether it allows or refuses the caller.

    Exit code 2 for unknown rule names and for invalid checks.
    """
    conf = _conf(config_file, data)
    policy = _policy(conf, policy_file)
    known = {str(each.name) for each in policy.rules}
    if rule is not None and rule not in known:
        raise InvalidRequest(f"--rule {rule}: unknown rule; `kilonova policy list` shows all rules")
    credentials = _caller(conf, token, user, project, role)
    if credentials is None:
        if any((rule, target_project, target_user)):
            raise InvalidRequest("set the caller: --token, or --user, --project and --role")
        for each in policy.findings:
            print(each)
        wrong = [each for each in policy.findings if not each.is_harmless]
        if wrong:
            raise ConfigurationError(
                f"{counted(len(wrong), 'line')} of the policy files will not have the intended effect"
            )
        print(f"The policy files are valid: they set {policy.set_by_files} of {counted(len(known), 'rule')}.")
        return 0
    target = {"project_id": target_project or credentials.project_id, "user_id": target_user or credentials.user_id}
    wanted = [rule] if rule is not None else sorted(known)
    passed = {name: policy.allows(name, target, credentials) for name in wanted}
    if as_json:
        print_json({"caller": _public(credentials), "target": target, "rules": passed})
    else:
        for name, passes in passed.items():
            print(f"{'passes ' if passes else 'refused'}  {name}")
    return 1 if rule is not None and not passed[rule] else 0


def _public(credentials: "Credentials") -> dict[str, Any]:
    return {name: value for name, value in credentials.as_policy().items() if value is not None}


def _caller(
    conf: Any, token: str | None, user: str | None, project: str | None, roles: Sequence[str] | None
) -> "Credentials | None":
    """Return the caller's credentials, or None if no option names a caller. Raises: InvalidRequest."""
    from kilonova.api.policy import Credentials  # noqa: PLC0415 - start-up time

    if token is not None:
        if user or project or roles:
            raise InvalidRequest("--token cannot be combined with --user, --project or --role")
        from kilonova.identity.keystone import told_of_token  # noqa: PLC0415 - start-up time

        told = told_of_token(conf, sys.stdin.readline().strip() if token == _FROM_INPUT else token)
        scope, domain = told.get("project", {}), told.get("domain", {})
        return Credentials(
            told["user"]["id"],
            scope.get("id", ""),
            tuple(each["name"] for each in told.get("roles", ())),
            domain_id=domain.get("id"),
            system_scope="all" if told.get("system") else None,
            user_domain_id=told["user"]["domain"]["id"],
            project_domain_id=scope.get("domain", {}).get("id"),
        )
    if not (user or project or roles):
        return None
    if not (user and project):
        raise InvalidRequest("a caller needs --user and --project")
    return Credentials(user, project, tuple(roles or ()))


def _conf(config_file: Sequence[str] | None, data: Path | None) -> Any:
    """Return the oslo.config object of a cloud, or one without files if there is no such cloud."""
    if config_file or data or conf_of_folder(None).is_file():
        return settings_of_cloud(config_file, data).conf
    return _without_files()


def _without_files() -> Any:
    from kilonova.config.configuration import Configuration  # noqa: PLC0415 - start-up time

    conf = Configuration()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    return conf


def _policy(conf: Any, policy_file: Path | None) -> "Policy":
    """Return the policy of the configuration or of ``policy_file``. Raises: InvalidRequest, ConfigurationError."""
    logging.getLogger("kilonova").addHandler(logging.NullHandler())  # findings are printed, not logged
    from kilonova.api.policy_files import use_file  # noqa: PLC0415 - start-up time
    from kilonova.cli.wiring.apis import policy_of  # noqa: PLC0415 - start-up time

    if policy_file is not None:
        if not policy_file.is_file():
            raise InvalidRequest(f"--policy-file {policy_file} is not a file")
        use_file(conf, policy_file)
    return policy_of(conf)


@app.callback()
def policy() -> None:
    """List access rules, and check policy files."""
