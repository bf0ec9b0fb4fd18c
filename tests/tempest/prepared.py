# SPDX-License-Identifier: Apache-2.0
"""What Tempest needs in a cloud: users of each role in projects of their own, and a second image."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack.config.loader import OpenStackConfig
from openstack.connection import Connection

from kilonova.cli.up import tiny_image

_PASSWORD = "only-in-this-cloud"
_OF_ADMINS = "administrators"


@dataclass(frozen=True)
class Person:
    """A user with roles in one project. Tempest looks for users by their roles, and gives a class no user twice."""

    name: str
    project: str
    roles: tuple[str, ...]

    def as_account(self) -> dict[str, Any]:
        """Return the entry of Tempest's file of accounts."""
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
    """Say who has to be there for so many workers: each has an administrator and users of two projects."""
    for number in range(workers):
        yield Person(f"admin-{number}", _OF_ADMINS, ("admin",))
        for service in ("service", "other-service"):  # a class that only needs an administrator may take one
            yield Person(f"{service}-{number}", _OF_ADMINS, ("admin", "service"))
        for project in (f"first-{number}", f"second-{number}"):
            for role in ("member", "reader", "manager"):
                yield Person(f"{role}-{project}", project, (role,))


def make_people(cloud: Connection, people: list[Person]) -> None:
    """Make users, projects and roles at the identity service."""
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
    """Have the catalog name a network service, where there is nothing.

    Tempest looks there for the security groups of projects that it made and removes again, and takes a 404 for none.
    """
    service = cloud.identity.create_service(type="network", name="nothing")
    region = next(iter(cloud.identity.regions()))
    cloud.identity.create_endpoint(service_id=service.id, interface="public", url=url, region_id=region.id)


def two_images(cloud: Connection) -> tuple[str, str]:
    """Return the ids of the image that a new cloud has and of another one, made here."""
    facts = {"disk_format": tiny_image.DISK_FORMAT, "container_format": "bare", "visibility": "public"}
    other = cloud.image.create_image("other", data=tiny_image.tiny_image(), wait=True, **facts)
    return cloud.image.find_image(tiny_image.NAME).id, other.id


def connect(folder: Path) -> Connection:
    """Return the administrator's way into the cloud of a folder."""
    known = OpenStackConfig(config_files=[str(folder / "clouds.yaml")], load_envvars=False)
    return Connection(config=known.get_one("kilonova"))
