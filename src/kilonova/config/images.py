# SPDX-License-Identifier: Apache-2.0
"""[images] and [image_cache]: how hosts get the data of images, and what they keep of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """The control process's side. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "images"

    endpoint: Annotated[
        str | None,
        Option("URL at which hosts reach the control processes; unset: that of [api] bind (Kilonova's own)."),
    ] = None
    shared_folder: Annotated[
        Path | None,
        Option("Where hosts see the folder of the image service's files, if they share it (Kilonova's own)."),
    ] = None
    ticket_lifetime_s: Annotated[
        int,
        Option(
            "Seconds in which a host may begin to transfer an image (Kilonova's own).", name="ticket_lifetime", min=10
        ),
    ] = 3600
    max_transfers: Annotated[
        int,
        Option("Images that a control process sends and receives at once, a thread each (Kilonova's own).", min=1),
    ] = 8
    precache_concurrency: Annotated[
        int,
        Option("How many hosts of an aggregate fetch images beforehand at once.", group="image_cache", min=1),
    ] = 1


@dataclass(frozen=True, slots=True)
class ImageCacheSettings:
    """The host's side."""

    GROUP: ClassVar[str] = "image_cache"

    subdirectory_name: Annotated[str, Option("Folder of the images that a host keeps, below its own.")] = "_base"
    max_size_mib: Annotated[
        int,
        Option(
            "MiB of images that are kept; those used longest ago go first (Kilonova's own).",
            name="max_size_mb",
            min=0,
        ),
    ] = 20_480
    manager_interval_s: Annotated[
        int,
        Option(
            "Seconds between two looks for images that no guest uses. 0 stands for 60; a negative value: nobody looks.",
            name="manager_interval",
        ),
    ] = 2400
    remove_unused_base_images: Annotated[bool, Option("Whether images that no guest uses are removed.")] = True
    remove_unused_original_minimum_age_s: Annotated[
        int,
        Option(
            "Seconds for which no guest may have used an image before it is removed.",
            name="remove_unused_original_minimum_age_seconds",
            min=0,
        ),
    ] = 86_400
    remove_unused_resized_minimum_age_s: Annotated[
        int,
        Option(
            "Seconds for which no guest may have used an empty file system, of which ephemeral disks are made, before "
            "it is removed.",
            name="remove_unused_resized_minimum_age_seconds",
            min=0,
        ),
    ] = 3600
    num_retries: Annotated[int, Option("How often a host tries again to transfer an image.", group="glance", min=0)] = 3
    cafile: Annotated[
        str | None,
        Option("Authorities that vouch for the certificate of the control processes (Kilonova's own).", group="images"),
    ] = None
    insecure: Annotated[
        bool, Option("Do not check the certificate of the control processes (Kilonova's own).", group="images")
    ] = False

    @property
    def unused_min_age_s(self) -> int | None:
        """How old images become that no guest uses, in seconds; None: they stay."""
        return self.remove_unused_original_minimum_age_s if self.remove_unused_base_images else None

    @property
    def verify(self) -> bool | str:
        """Whether the certificate is checked, and with which authorities, as HTTP clients have it."""
        return not self.insecure and (self.cafile or True)
