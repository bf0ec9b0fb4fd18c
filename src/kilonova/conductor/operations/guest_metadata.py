# SPDX-License-Identifier: Apache-2.0
"""Metadata of servers for the metadata service: the files of a config drive, whether the server has one or not."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.conductor.workflow_engine.run import ServerGoneError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflows.guest_description import find_server, kept_guest
from kilonova.guest_metadata import files_of


class GuestMetadata:
    """Returns the metadata of a server as it is now. Administrator passwords are on config drives only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def files(self, instance_uuid: str, project_id: str) -> Mapping[str, bytes] | None:
        """Return path → content, or None if the project has no such server."""
        database = self._services.database
        try:
            with database.read() as connection:
                instance, request = find_server(connection, instance_uuid)
        except ServerGoneError:
            return None
        if instance.project_id != project_id:
            return None
        drive = self._services.config_drives.contents(database, instance, request, instance.host)
        return files_of(kept_guest(database, instance, request, None), replace(drive, admin_pass=None))
