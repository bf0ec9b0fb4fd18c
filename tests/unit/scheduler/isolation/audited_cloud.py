# SPDX-License-Identifier: Apache-2.0
"""A cloud of four hosts and its audit of isolation."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.unit.scheduler.small_cloud import aggregate, flavor, host, table

from kilonova.model.aggregate import Aggregate
from kilonova.model.image import Image
from kilonova.model.placed_server import PlacedServer
from kilonova.scheduler.isolation.audit import Finding, Report, audit
from kilonova.scheduler.isolation.universe import UNTAGGED, OfferedFlavor
from kilonova.scheduler.isolation_rules import PREFIX
from kilonova.scheduler.settings import SchedulerConfig

SMALL = flavor(name="small")
TAGGED = Image("1", "tagged", properties={"trove": "true"})
PLAIN = Image("2", "plain")
NOTHING = UNTAGGED.name


@dataclass
class Cloud:
    """Hosts a to d, the aggregates of a test, and default rules."""

    aggregates: Sequence[Aggregate]
    offered: Sequence[OfferedFlavor] = (OfferedFlavor(SMALL),)
    images: Sequence[Image] = (TAGGED, PLAIN)
    servers: Sequence[PlacedServer] = ()
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    hosts: str = "abcd"

    def audit(self) -> Report:
        hosts = table(*(host(name) for name in self.hosts), aggregates=tuple(self.aggregates))
        return audit(hosts, self.offered, self.images, self.servers, self.config)

    def found(self) -> dict[str, Finding]:
        return {finding.kind: finding for finding in self.audit().findings}


def pool(number: int, hosts: str, *rules: str, **metadata: str) -> Aggregate:
    keys = {f"{PREFIX}.{index}": rule for index, rule in enumerate(rules)}
    return aggregate(number, tuple(hosts), **keys, **metadata)
