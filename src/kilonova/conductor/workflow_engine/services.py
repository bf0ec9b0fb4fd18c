# SPDX-License-Identifier: Apache-2.0
"""Dependencies of workflow steps, injected by the composition root and replaced by fakes in tests."""

from collections.abc import Callable, Sequence
from dataclasses import field

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
from kilonova.network.client import NetworkClient
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Dependencies of workflow steps. ``owner``: UUID of this control process. ``limits``: the default quotas.

    ``counts_failed_builds``: whether the failed builds of each host are counted.
    ``image_data``: returns how a host downloads an image; ``image_upload``: returns how a host uploads the data of a
    new image. Both return None if the host has no way to do so.
    ``image_keeper``: Glance access as Kilonova's own user; None if not configured.
    ``config_drives``: contents of servers' config drives.
    ``network_client``: the network service as Kilonova's own user; None if no network service is configured.
    ``vif_plugging_timeout_s``: how long a new guest waits until its ports are plugged, 0 for no wait;
    ``vif_plugging_is_fatal``: whether its operation then fails.
    ``routed_networks``: whether hosts must reach the segments of routed networks.
    ``begin``: starts stored workflows of this process in the background. ``listeners``: callbacks for events.
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
    network_client: NetworkClient | None = None
    vif_plugging_timeout_s: float = 300.0
    vif_plugging_is_fatal: bool = True
    routed_networks: bool = False
    listeners: Listeners = field(default_factory=Listeners)

    @property
    def network(self) -> NetworkClient:
        """The network service. Raises: Unavailable if none is configured, although the server has networks."""
        if self.network_client is None:
            raise Unavailable("No network service is configured.")
        return self.network_client

    @property
    def images(self) -> ImageKeeper:
        """Glance access as Kilonova's own user. Raises: Unavailable if no such user is configured in this process."""
        if self.image_keeper is None:
            raise Unavailable("No image service user is configured for Kilonova itself.")
        return self.image_keeper
