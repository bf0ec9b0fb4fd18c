# SPDX-License-Identifier: Apache-2.0
"""Parsers of the stock client for commands of ``kilonova``."""

import pytest

from kilonova.cli.openstack_client import commands
from kilonova.cli.openstack_client.commands import Capacity, Drain, JobsShow


def test_options_are_those_of_the_command_but_for_the_choice_of_a_cloud() -> None:
    found = Capacity(None, None).get_parser("openstack scheduler capacity")
    typed = ["--flavor", "m1", "--flavor", "m2", "--json", "--zone", "z"]
    given = found.parse_args(typed)
    assert given.typed == typed
    assert (given.flavor, given.as_json, given.zone) == (["m1", "m2"], True, "z")
    told = found.format_help()
    assert "--data" not in told
    assert "--os-cloud" not in told
    assert Capacity(None, None).get_description().split(".")[0] in " ".join(told.split())


def test_arguments_may_be_required_or_many() -> None:
    show = JobsShow(None, None).get_parser("openstack scheduler jobs show")
    assert show.parse_args(["some"]).job == "some"
    with pytest.raises(SystemExit):
        show.parse_args([])
    assert Drain(None, None).get_parser("x").parse_args(["one", "two"]).hosts == ["one", "two"]


@pytest.mark.parametrize("name", [name for name, each in vars(commands).items() if isinstance(each, type)])
def test_every_command_has_help(name: str) -> None:
    command = getattr(commands, name)(None, None)
    assert command.get_description()
    assert "usage:" in command.get_parser(f"openstack scheduler {name}").format_help()


def test_unknown_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Capacity(None, None).get_parser("x").parse_args(["--nonsense"])
    assert "--nonsense" in capsys.readouterr().err
