# SPDX-License-Identifier: Apache-2.0
"""Keystone, Glance and Neutron of ``kilonova up``: their start, and the first resources of a new cloud."""

from collections.abc import Iterator

from kilonova.cli.up.children import RUN_MODULE, Child
from kilonova.cli.up.cloud_files import Accounts, Cloud
from kilonova.cli.up.first_image import FirstImage, mark_of
from kilonova.cli.up.networks import NetworkPart
from kilonova.cli.up.start_progress import StartProgress


def start_bundled_services(cloud: Cloud, kind: type[Child]) -> Iterator[Child]:
    """Start Keystone and Glance without waiting until they answer. ``kind``: how their processes are started."""
    for name, probe in (("keystone", f"{cloud.identity.local_url}/identity"), ("glance", f"{cloud.image.local_url}/")):
        module, settings = f"kilonova.bundled_services.{name}", f"{cloud.folder}/{name}/settings.json"
        yield kind(name, (*RUN_MODULE, module, "--settings", settings), cloud.log(name), probe, cloud.folder)


def fill(cloud: Cloud, people: Accounts, networks: NetworkPart | None, progress: StartProgress) -> None:
    """Create the first flavors, the first image and the first networks, unless they have been created before."""
    auth_url = f"{cloud.identity.local_url}/identity"
    if not (mark := mark_of(cloud.folder)).exists():
        from kilonova.cli.up.seeding import FirstContents  # noqa: PLC0415 - start-up time

        progress.start("contents", "creating the first flavors and the first image")
        compute_url = f"{cloud.compute.local_url}/compute/v2.1"
        image = FirstImage(networks.linux if networks else None)
        FirstContents(mark, people.admin, auth_url, compute_url, cloud.image.local_url, image).create(progress.tick)
        progress.finish("contents", "flavors and image are created")
    if networks is not None and not networks.mark.exists():
        from kilonova.cli.up.network_seeding import FirstNetworks  # noqa: PLC0415 - start-up time

        progress.start("networks", "creating the first networks")
        FirstNetworks(networks.mark, people.service, auth_url, networks.address.local_url).create(progress.tick)
        progress.finish("networks", "networks are created")
