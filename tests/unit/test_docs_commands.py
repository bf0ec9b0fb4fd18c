# SPDX-License-Identifier: Apache-2.0
"""Commands, options, targets and versions that pages name exist. Nothing is run."""

import configparser
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import loading
from keystonemiddleware import opts as keystonemiddleware_opts
from oslo_limit import opts as limit_opts
from oslo_middleware import opts as middleware_opts
from oslo_policy import opts as policy_opts

from kilonova.api.compute.versions import MAX_VERSION as NEWEST_COMPUTE
from kilonova.api.placement.root import MAX_VERSION as NEWEST_PLACEMENT
from kilonova.cli.application import build
from kilonova.config.console_proxy import ConsoleProxySettings
from kilonova.config.dashboard import DashboardSettings
from kilonova.config.section import settings_of
from kilonova.config.settings import former_names, own_options
from kilonova.db.change_log import changes
from kilonova.messaging import codec

ROOT = Path(__file__).parents[2]
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").glob("*.md"))]
_EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
#: Sections of the files of other services, which pages quote.
_OF_OTHERS = {"placement", "placement_database", "filter:authtoken"}
#: Options of Nova of which pages say that they have no effect.
_OF_NOVA = {
    ("glance", "verify_glance_signatures"), ("pci", "report_in_placement"), ("service_user", "send_service_user_token"),
}  # fmt: skip
#: Options of the stock client that pages name without their command.
_OF_THE_CLIENT = {"--deleted", "--os-domain-name", "--os-system-scope", "--serial", "--wait"}
#: Sections of processes besides control processes and agents.
_PROCESSES = (ConsoleProxySettings, DashboardSettings)
#: Sections that hold the credentials of a user, with the options of keystoneauth.
_CREDENTIALS = ("keystone_authtoken", "service_user", "glance", "neutron", "nova", "keystone", "oslo_limit")


def _prose(text: str) -> str:
    return _BLOCK.sub("", text)


def commands(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each command line of ``kilonova`` in a page, and whether it is complete, as in a block of code."""
    for line in text.splitlines():
        found = re.match(r"(?:\s*\$ |    |)(?:\.venv/bin/)?(kilonova [a-z-].*)", line)
        if found and (line.startswith(("$", " ", ".venv")) or _in_block(text, line)):
            yield found[1], True
    for span in _SPAN.findall(_prose(text)):
        if span.startswith("kilonova "):
            yield " ".join(span.split()), False


def _in_block(text: str, line: str) -> bool:
    return any(line in body.splitlines() for _, body in _BLOCK.findall(text))


def words(line: str) -> list[str]:
    """Return the arguments of a command line, without comment, brackets, ellipses and pipes."""
    lexer = shlex.shlex(re.sub(r"[\[\]…]|\s&$| \| .*", " ", line), posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)[1:]


@cache
def _application() -> Any:
    return build("")


def check(line: str, *, is_complete: bool) -> None:
    """Parse a command line as typer would. Raises: an exception that names what it does not know."""
    command, arguments = _application(), words(line)
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
    options = {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if arguments == ["--help"]:
        return
    if (
        not is_complete
        and arguments
        and arguments[-1] in options
        and not getattr(options[arguments[-1]], "is_flag", True)
    ):
        arguments.append("VALUE")  # the text names the option alone
    context = command.context_class(command, info_name="kilonova")
    values, left, _ = command.make_parser(context).parse_args(arguments)
    assert left == [], f"too many arguments: {left}"
    if is_complete:
        missing = [each.name for each in command.params if each.required and values.get(each.name) in (None, ())]
        assert missing == [], f"missing: {missing}"


@_EACH_PAGE
def test_commands_of_a_page_parse(page: Path) -> None:
    wrong = []
    for line, is_complete in commands(page.read_text()):
        try:
            check(line, is_complete=is_complete)
        except Exception as error:  # noqa: BLE001 - whatever typer raises
            wrong.append(f"{line}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    "line", ["kilonova upp", "kilonova hosts --stray", "kilonova db purge", "kilonova status tasks NAME"]
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"no command|No such option|missing|too many"):
        check(line, is_complete=True)


def _option_names(command: Any) -> set[str]:
    named = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return named.union(*map(_option_names, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "testing.md"], ids=lambda page: page.name)
def test_options_of_commands_that_a_page_names_alone_exist(page: Path) -> None:
    """Options of whole command lines are parsed with their command; testing.md has those of pytest and of suites."""
    spans = _SPAN.findall(_prose(page.read_text()))
    named = {span.split()[0] for span in spans if re.match(r"--[a-z]", span)}
    assert sorted(named - _option_names(_application()) - _OF_THE_CLIENT) == []


@_EACH_PAGE
def test_targets_of_make_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)(?=[`\s]|$)", "\n".join(_code(page.read_text()))))
    assert named <= set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _code(text: str) -> Iterator[str]:
    yield from (body for _, body in _BLOCK.findall(text))
    yield from _SPAN.findall(_prose(text))
    yield from re.findall(r"^    (.*)$", text, re.MULTILINE)


@cache
def known_options() -> frozenset[tuple[str, str]]:
    """Return (section, option) of Kilonova and of the libraries that read its configuration files."""
    found = {(group, option.name) for group, option in own_options()} | set(former_names())
    found |= {(setting.group, setting.oslo.name) for each in _PROCESSES for setting in settings_of(each)}
    for library in (policy_opts, middleware_opts, limit_opts):
        found |= {
            (str(group or "DEFAULT"), option.name) for group, options in library.list_opts() for option in options
        }
    found |= {
        (str(group), option.name)
        for group, options in keystonemiddleware_opts.list_auth_token_opts()
        for option in options
    }
    user = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
    ]
    found |= {(section, option.name) for section in _CREDENTIALS for option in user}
    return frozenset((section, name.replace("-", "_")) for section, name in found)


def options(text: str) -> Iterator[tuple[str, str]]:
    """Yield (section, option) of each option that a page names with its section: in text, tables and files."""
    yield from re.findall(r"`\[([a-zA-Z_]+)\]\s([a-z_0-9]+)(?: = [^`]*)?`", _prose(text))
    section_of_table = ""
    for line in text.splitlines():
        if not line.startswith("|"):
            section_of_table = ""
            continue
        first = line.split(" | ")[0]
        if header := re.fullmatch(r"\| `\[([a-zA-Z_]+)\]`", first):
            section_of_table = header[1]
        elif section_of_table:
            yield from ((section_of_table, name) for name in re.findall(r"`([a-z][a-z_0-9]+)`", first))
    for language, body in _BLOCK.findall(text):
        if language == "ini":
            parser = configparser.ConfigParser(strict=False, interpolation=None, default_section="(no defaults)")
            parser.read_string(body)
            yield from ((section, name) for section in parser.sections() for name in parser[section])


@_EACH_PAGE
def test_options_of_a_page_exist(page: Path) -> None:
    named = {
        (section, name)
        for section, name in options(page.read_text())
        if section not in _OF_OTHERS and (section == "DEFAULT" or section.islower())  # others are of plug-in classes
    }
    assert sorted(named - known_options() - _OF_NOVA) == []


def test_the_options_of_nova_are_not_options_of_kilonova() -> None:
    assert not _OF_NOVA & known_options(), "take them from the list, and adapt the pages"


def test_every_version_of_the_messages_has_a_row() -> None:
    rows = re.findall(r"^ *(\d+)    \S", codec.__doc__ or "", re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, codec.VERSION + 1))


def test_every_version_of_the_change_log_is_described() -> None:
    page = (ROOT / "docs/adr/0017-the-format-of-the-change-log.md").read_text()
    _, _, text = page.partition("Versions so far:")
    assert [int(number) for number in re.findall(r"\*\*(\d+)\*\*", text)] == list(range(1, changes.VERSION + 1))


def test_the_first_page_names_the_newest_versions_of_the_apis() -> None:
    assert f"(2.1 to {NEWEST_COMPUTE})" in (ROOT / "README.md").read_text()
    assert f"placement 1.0\N{EN DASH}{NEWEST_PLACEMENT}" in (ROOT / "docs/architecture.md").read_text()
