# SPDX-License-Identifier: Apache-2.0
"""The present cloud as a process sees it that only reads the database: hosts, rules and change-log number."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.model.server_group import GroupView
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.rule_change import RebuildRules, cannot_rebuild
from kilonova.scheduler.host_table import HostTable


@dataclass(frozen=True, slots=True)
class CloudState:
    """The cloud after commit ``seq``. ``hosts``: a table of its own, which the holder may change.

    Claims that are not committed yet are not counted.
    """

    hosts: HostTable
    seq: int
    engine: Engine
    aliases: Mapping[str, Alias]
    mirror: Mirror

    def group(self, uuid: str) -> GroupView | None:
        """Return a server group with its members on each host; None if it is unknown."""
        return self.mirror.group(uuid)


@dataclass(frozen=True, slots=True)
class PresentCloud:
    """The cloud of a database, with the rules and PCI aliases of a configuration.

    ``rebuild_rules``: returns these rules after a change.
    """

    database: Database
    engine: Engine
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    rebuild_rules: RebuildRules = cannot_rebuild

    def state(self) -> CloudState:
        """Load the present state from one snapshot of the database. Raises: Unavailable."""
        self.database.clock.now()
        mirror = Mirror(self.database, self.database.clock.seconds)
        mirror.reload()
        return CloudState(mirror.hosts_apart(), mirror.seq, self.engine, self.aliases, mirror)
