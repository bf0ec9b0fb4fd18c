# SPDX-License-Identifier: Apache-2.0
from kilonova.cli.application import COMMANDS
from kilonova.cli.openstack_client import commands
from kilonova.cli.openstack_client.bridge import KilonovaCommand
from support.entry_points import entry_points

MADE = {name: each for name, each in vars(commands).items() if isinstance(each, type)}
#: Commands under "Why servers are where they are" that are no questions about a running cloud to its scheduler.
ELSEWHERE = {"audit"}
#: Commands of which only one question or request to the scheduler is a command of the stock client.
FURTHER = {"hosts"}


def test_each_command_has_its_entry_point() -> None:
    named = entry_points()["openstack.scheduler.v1"]
    assert named == {
        "scheduler_" + "_".join(each.words).replace("-", "_"): f"{commands.__name__}:{name}"
        for name, each in MADE.items()
    }
    assert all(issubclass(each, KilonovaCommand) for each in MADE.values())


def test_all_questions_to_the_scheduler_are_commands_of_the_stock_client() -> None:
    wanted = COMMANDS["Why servers are where they are"].keys() - ELSEWHERE
    assert {each.words[0] for each in MADE.values()} == wanted | FURTHER
