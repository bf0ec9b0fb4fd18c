# SPDX-License-Identifier: Apache-2.0
"""What the steps of workflows may use, handed in by the composition root and faked in tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kilonova.claims.claimer import Claimer
from kilonova.conductor.guest_data.config_drives import ConfigDrives
from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.conductor.workflow_engine.listeners import Listeners
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import Unavailable
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData
from kilonova.model.quota import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Services:
    """``owner``: this process. ``limits``: the configured quotas, which hold where nobody has set others.

    ``counts_failed_builds``: whether builds that fail count against their host.
    ``image_data``: how a host gets the data of an image, ``image_upload``: how it brings that of one that has none yet;
    None where there is no way. ``image_keeper``: Kilonova's own user at the image service; None where there is none.
    ``config_drives``: what goes on those of servers.
    ``begin``: has stored workflows of this process go on in the background. ``listeners``: are told of what happens.
    """

    database: Database
    claimer: Claimer
    owner: str
    max_attempts: int
    begin: Callable[[Sequence[WorkflowRow]], None]
    limits: Limits = field(default_factory=lambda: NO_LIMITS)
    counts_failed_builds: bool = True
    image_data: Callable[[str, Image], ImageData | None] = lambda _host, _image: None
    config_drives: ConfigDrives = field(default_factory=ConfigDrives)
    image_upload: Callable[[str, str], ImageData | None] = lambda _host, _image_id: None
    image_keeper: ImageKeeper | None = None
    listeners: Listeners = field(default_factory=Listeners)

    @property
    def images(self) -> ImageKeeper:
        """Return who looks at images. Raises: Unavailable: another process may know the image service."""
        if self.image_keeper is None:
            raise Unavailable("No user of Kilonova's own at the image service is configured.")
        return self.image_keeper
