# SPDX-License-Identifier: Apache-2.0
"""Comparison of a scenario's result with its expectations."""

from collections.abc import Mapping, Sequence

from kilonova.records import dataclass
from kilonova.scenario.model import Scenario, ScenarioServer

SPAWN = "spawn"


@dataclass(frozen=True, slots=True)
class Landing:
    """The host of a server, or None if the server's request failed.

    ``refused_by``: the rule that rejected the last remaining hosts, or ``spawn`` if the hosts failed to start the
    guest.
    """

    host: str | None
    refused_by: str | None = None


def surprises(scenario: Scenario, landings: Mapping[str, Landing]) -> tuple[str, ...]:
    """Return a text for each deviation from the expectations; empty if there is none.

    ``landings``: server name → the server's :class:`Landing`.
    """
    found: list[str] = []
    for asked in scenario.servers:
        mine = [(name, landings[name]) for name in asked.names if name in landings]
        found += [f"{name} was not requested" for name in asked.names if name not in landings]
        for name, landing in mine:
            found += _misplaced(asked, name, landing)
        used = {landing.host for _, landing in mine}
        found += [f"none of {asked.name} is on {host}" for host in asked.uses if host not in used]
    return (*found, *_broken_groups(scenario, landings))


def _misplaced(asked: ScenarioServer, name: str, landing: Landing) -> list[str]:
    if landing.host is not None:
        wanted = f"on one of {', '.join(asked.expect)}" if asked.expect else "refused"
        return [] if landing.host in asked.expect else [f"{name} is on {landing.host}, and should be {wanted}"]
    if asked.expect:
        return [f"{name} was refused by {landing.refused_by}, and should be on one of {', '.join(asked.expect)}"]
    if asked.refused_by not in (None, landing.refused_by):
        return [f"{name} was refused by {landing.refused_by}, and should be by {asked.refused_by}"]
    return []


def _broken_groups(scenario: Scenario, landings: Mapping[str, Landing]) -> list[str]:
    found = []
    for group in scenario.groups:
        names = [name for asked in scenario.servers if asked.group == group.name for name in asked.names]
        hosts = [landings[name].host for name in names if name in landings and landings[name].host is not None]
        most = max(map(hosts.count, hosts), default=0)
        if group.policy == "affinity" and len(set(hosts)) > 1:
            found.append(f"group {group.name} is spread over {', '.join(_listed(hosts))}")
        if group.policy == "anti-affinity" and most > (group.max_server_per_host or 1):
            found.append(f"group {group.name} has {most} servers on one host")
    return found


def _listed(hosts: Sequence[str | None]) -> list[str]:
    return sorted({str(host) for host in hosts})
