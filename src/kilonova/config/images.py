# SPDX-License-Identifier: Apache-2.0
"""[images] and [image_cache]: transfer of image data to hosts, and the image cache of hosts."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Image options of a control process. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "images"

    endpoint: Annotated[
        str | None,
        Option("URL at which hosts reach the control processes; unset: the address in [api] bind (Kilonova's own)."),
    ] = None
    shared_folder: Annotated[
        Path | None,
        Option(
            "Path at which hosts have mounted the image service's data folder, if it is shared with them (Kilonova's "
            "own)."
        ),
    ] = None
    ticket_lifetime_s: Annotated[
        int,
        Option(
            "Seconds for which a host's ticket can start a transfer of an image (Kilonova's own).",
            name="ticket_lifetime",
            min=10,
        ),
    ] = 3600
    max_transfers: Annotated[
        int,
        Option("Most concurrent image transfers of a control process, one thread each (Kilonova's own).", min=1),
    ] = 8
    precache_concurrency: Annotated[
        int,
        Option("Number of hosts of an aggregate that pre-cache images at the same time.", group="image_cache", min=1),
    ] = 1


@dataclass(frozen=True, slots=True)
class ImageCacheSettings:
    """Options of a host's image cache and of its transfers."""

    GROUP: ClassVar[str] = "image_cache"

    subdirectory_name: Annotated[str, Option("Folder of the image cache, below the host's folder.")] = "_base"
    max_size_mib: Annotated[
        int,
        Option(
            "Size of the image cache in MiB; least recently used images are removed first (Kilonova's own).",
            name="max_size_mb",
            min=0,
        ),
    ] = 20_480
    manager_interval_s: Annotated[
        int,
        Option(
            "Interval of the task that removes unused images, in seconds. 0 stands for 60; a negative value: off.",
            name="manager_interval",
        ),
    ] = 2400
    remove_unused_base_images: Annotated[bool, Option("Whether unused images are removed from the image cache.")] = True
    remove_unused_original_minimum_age_s: Annotated[
        int,
        Option(
            "An image is removed from the cache when no guest has used it for this number of seconds.",
            name="remove_unused_original_minimum_age_seconds",
            min=0,
        ),
    ] = 86_400
    remove_unused_resized_minimum_age_s: Annotated[
        int,
        Option(
            "A cached empty file system (backing file of ephemeral disks) is removed when no guest has used it for "
            "this number of seconds.",
            name="remove_unused_resized_minimum_age_seconds",
            min=0,
        ),
    ] = 3600
    num_retries: Annotated[int, Option("Number of retries of a host's image transfer.", group="glance", min=0)] = 3
    cafile: Annotated[
        str | None,
        Option("CA file to check the certificate of the control processes with (Kilonova's own).", group="images"),
    ] = None
    insecure: Annotated[
        bool, Option("Do not check the certificate of the control processes (Kilonova's own).", group="images")
    ] = False

    @property
    def unused_min_age_s(self) -> int | None:
        """Seconds after its last use at which an image is removed from the cache; None: never."""
        return self.remove_unused_original_minimum_age_s if self.remove_unused_base_images else None

    @property
    def verify(self) -> bool | str:
        """The ``verify`` argument of HTTP clients: whether to check certificates, or the CA file to check them with."""
        return not self.insecure and (self.cafile or True)
