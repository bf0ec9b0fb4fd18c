# SPDX-License-Identifier: Apache-2.0
"""Resources that Tempest needs in a cloud: users with each role in projects of their own, and a second image."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack.config.loader import OpenStackConfig
from openstack.connection import Connection

from kilonova.cli.up import first_image
from kilonova.cli.up.first_image import FirstImage
from kilonova.cli.up.networks import PRIVATE, PUBLIC

_PASSWORD = "only-in-this-cloud"
_OF_ADMINS = "administrators"
#: What Tempest is told of a cloud without networks.
NO_NETWORKS = {"networks": "false", "extensions": "", "fixed_network": "", "floating_network": "", "public_network": ""}


@dataclass(frozen=True)
class Person:
    """User with roles in one project. Tempest selects users by role, and gives a test class each user only once."""

    name: str
    project: str
    roles: tuple[str, ...]

    def as_account(self) -> dict[str, Any]:
        """Return the user's entry in Tempest's accounts file."""
        entry = {
            "username": self.name,
            "password": _PASSWORD,
            "project_name": self.project,
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "roles": list(self.roles),
        }
        return {**entry, "types": ["admin"]} if self.roles == ("admin",) else entry


def people_of(workers: int) -> Iterator[Person]:
    """Yield the users for a number of workers: each worker needs administrators and users of two projects."""
    for number in range(workers):
        yield Person(f"admin-{number}", _OF_ADMINS, ("admin",))
        for service in (
            "service",
            "other-service",
        ):  # a test class that only needs an administrator may get one of these
            yield Person(f"{service}-{number}", _OF_ADMINS, ("admin", "service"))
        for project in (f"first-{number}", f"second-{number}"):
            for role in ("member", "reader", "manager"):
                yield Person(f"{role}-{project}", project, (role,))


def make_people(cloud: Connection, people: list[Person]) -> None:
    """Create users, projects and role assignments in Keystone."""
    roles = {role.name: role for role in cloud.identity.roles()}
    projects = {}
    for person in people:
        if person.project not in projects:
            projects[person.project] = cloud.identity.create_project(name=person.project, domain_id="default")
        project = projects[person.project]
        user = cloud.identity.create_user(name=person.name, password=_PASSWORD, default_project_id=project.id)
        for name in person.roles:
            cloud.identity.assign_project_role_to_user(project, user, roles[name])


def announce_networks(cloud: Connection, url: str) -> None:
    """Register a network service in the catalog whose endpoint does not exist.

    Tempest queries it for the security groups of its temporary projects, and accepts a 404 as none.
    """
    service = cloud.identity.create_service(type="network", name="nothing")
    region = next(iter(cloud.identity.regions()))
    cloud.identity.create_endpoint(service_id=service.id, interface="public", url=url, region_id=region.id)


def networks_of(cloud: Connection) -> dict[str, str]:
    """Return what Tempest is told of the first networks of a cloud."""
    public = cloud.network.find_network(PUBLIC, ignore_missing=False)
    return {
        "networks": "true",
        "extensions": "all",
        "fixed_network": PRIVATE,
        "floating_network": PUBLIC,
        "public_network": public.id,
    }


def two_images(cloud: Connection, linux: Path | None) -> tuple[str, str]:
    """Return the ids of a new cloud's image and of a second one, created here.

    ``linux``: file of the small Linux, if the guests can be reached.
    """
    image = FirstImage(linux)
    facts = {"disk_format": image.disk_format, "container_format": "bare", "visibility": "public"}
    other = cloud.image.create_image("other", data=image.content(), wait=True, **facts)
    return cloud.image.find_image(first_image.NAME).id, other.id


def connect(folder: Path) -> Connection:
    """Return an administrator's connection to the cloud of a folder."""
    known = OpenStackConfig(config_files=[str(folder / "clouds.yaml")], load_envvars=False)
    return Connection(config=known.get_one("kilonova"))
