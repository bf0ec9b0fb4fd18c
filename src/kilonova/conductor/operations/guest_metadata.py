# SPDX-License-Identifier: Apache-2.0
"""Metadata of servers for the metadata service: the files of a config drive, whether the server has one or not.

Neutron's metadata agents name the server, with a signature. Kilonova's own agents name a host of theirs and what they
see of the guest, and get answers only about servers that the database places on this host.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from kilonova.conductor.workflow_engine.run import ServerGoneError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflows.guest_description import find_server, kept_guest
from kilonova.db import guest_addresses, instances, server_passwords
from kilonova.db.core.transaction import Transaction
from kilonova.guest_metadata import files_of
from kilonova.guest_metadata.passwords import is_valid, password_files
from kilonova.messaging.messages import (
    AskMetadata,
    GuestMetadata,
    MetadataAnswer,
    MetadataQuestion,
    PasswordPosted,
    PostPassword,
)
from kilonova.model.posted_password import PostResult

LOG = logging.getLogger(__name__)


class MetadataOfServers:
    """Metadata of servers as they are now. Administrator passwords are on config drives only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def files(self, instance_uuid: str, project_id: str | None = None) -> Mapping[str, bytes] | None:
        """Return path → content, or None if there is no such server. ``project_id``: its project, if known."""
        database = self._services.database
        try:
            with database.read() as connection:
                instance, request = find_server(connection, instance_uuid)
                password = server_passwords.find(connection, instance_uuid)
        except ServerGoneError:
            return None
        if project_id not in (None, instance.project_id):
            return None
        drive = self._services.config_drives.contents(database, instance, request, instance.host)
        files = files_of(kept_guest(database, instance, request, None), replace(drive, admin_pass=None))
        return {**files, **password_files(password)}

    def post_password(self, instance_uuid: str, project_id: str | None, password: str) -> PostResult:
        """Store the encrypted password that a guest posts. A server keeps the first one, until its owner deletes it."""

        def post(tx: Transaction) -> PostResult:
            instance = instances.find(tx.connection, instance_uuid)
            if instance is None or project_id not in (None, instance.project_id):
                return PostResult.ABSENT
            present = server_passwords.find(tx.connection, instance_uuid)
            if present:
                return PostResult.STORED if present == password else PostResult.PRESENT
            server_passwords.store(tx, instance_uuid, password)
            return PostResult.STORED

        if not is_valid(password):
            return PostResult.INVALID
        result = self._services.database.write_unless_away(post)
        if result is PostResult.STORED:
            LOG.info("Server %s: its guest has posted a password", instance_uuid)
        return result

    def answer(self, question: MetadataQuestion) -> MetadataAnswer:
        """Answer an agent, whose right to speak for the host has been checked."""
        with self._services.database.read() as connection:
            uuid = guest_addresses.find_server(
                connection, question.host, question.network_id, question.address, question.mac
            )
        match question:
            case AskMetadata():
                files = None if uuid is None else self.files(uuid)
                return GuestMetadata(found=False) if files is None else GuestMetadata.of(files)
            case PostPassword():
                if uuid is None:
                    return PasswordPosted(PostResult.ABSENT)
                return PasswordPosted(self.post_password(uuid, None, question.password))
