# SPDX-License-Identifier: Apache-2.0
"""Everything that a process with agents was told: of databases, APIs and credentials of users it knows nothing."""

from dataclasses import dataclass, field

from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.config.log import LogSettings
from kilonova.config.rabbit import RabbitSettings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """A field for each section that an agent reads.

    ``needless``: [group] option of secrets that the files have and an agent has no use for.
    """

    rabbit: RabbitSettings
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    fake: FakeSettings = field(default_factory=FakeSettings)
    image_cache: ImageCacheSettings = field(default_factory=ImageCacheSettings)
    consoles: ConsoleSettings = field(default_factory=ConsoleSettings)
    log: LogSettings = field(default_factory=LogSettings)
    needless: tuple[str, ...] = ()
