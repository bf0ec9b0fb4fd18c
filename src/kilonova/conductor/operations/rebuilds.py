# SPDX-License-Identifier: Apache-2.0
"""Rebuild of servers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.rebuild import REBUILD, MadeOf, RebuildFacts, made_of
from kilonova.db import instances, quotas, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, OverQuota
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, VmState
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.request_spec import StoredRequest
from kilonova.model.requester import Requester


class Rebuilds:
    """Operation that rebuilds servers on their hosts."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def rebuild(
        self,
        uuid: str,
        flavor: Flavor,
        request: StoredRequest,
        image: Image,
        who: Requester,
        *,
        user_data: str | None,
        values: Mapping[str, Any],
        key: PublicKey | None = None,
        trusted_certs: tuple[str, ...] = (),
        admin_pass: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Start rebuilding a server from ``image``.

        ``flavor``, ``request``: the server's flavor and stored request with which ``image`` was checked.
        ``values``: columns of the instance to change in the same transaction. ``key``: the public key to inject.
        ``trusted_certs``: ids of the certificates for the image signature.
        ``admin_pass``: administrator's password for a guest with a config drive; it is not stored.
        ``limits``: quotas from an external service (unified limits); None to use the quotas in the database.
        Raises: NotFound, UnexpectedTaskState, OverQuota; ConcurrentUpdate if flavor or request have changed meanwhile.
        """
        services = self._starter.services
        asked = replace(request, user_data=user_data, key=key, trusted_certs=trusted_certs)
        new = _changed(uuid, request, asked, image)

        def facts_of(server: Instance) -> RebuildFacts:
            return RebuildFacts(
                server.host or "",
                server.node or "",
                runs=server.vm_state is not VmState.STOPPED,
                new_image=image.id != server.image_ref,
                before=MadeOf.present(server),
            )

        def only_if(tx: Transaction, server: Instance) -> None:
            present = request_specs.get_many(tx.connection, [server]).get(uuid)
            if (server.flavor, present) != (flavor, request):
                raise ConcurrentUpdate(f"Instance {uuid} was changed meanwhile.")

        def begin(tx: Transaction, server: Instance) -> None:
            _require_quota(tx, server, values, services.limits, limits)
            if new is not None:
                request_specs.insert(tx, [new])
            instances.change(tx, uuid, **values)
            key_name = values.get("key_name", server.key_name)
            request_spec_uuid = server.request_spec_uuid if new is None else new.uuid
            made_of(tx, uuid, MadeOf(image.id, image.properties, key_name, request_spec_uuid), keep_request=True)
            if server.config_drive:
                services.config_drives.passwords.remember([uuid], admin_pass)

        self._starter.start(REBUILD, facts_of, uuid, who, begin, only_if=only_if)


def _changed(uuid: str, before: StoredRequest, asked: StoredRequest, image: Image) -> StoredRequest | None:
    """Return the new stored request, which only this server has; None if the old stored request stays valid."""
    if image == before.spec.image and asked == before:
        return None
    return replace(asked, uuid=new_uuid(), spec=replace(asked.spec, image=image, instance_uuids=(uuid,)))


def _require_quota(
    tx: Transaction, instance: Instance, values: Mapping[str, Any], configured: Limits, limits: Limits | None
) -> None:
    """Raise OverQuota if the server's metadata would exceed the quota."""
    count = len(values.get("metadata") or ())
    asked = QuotaRequest(instance.project_id, instance.user_id, Usage(), 1, 1, metadata_items=count, limits=limits)
    (granted,) = quotas.take(tx, [asked], configured)
    if isinstance(granted, OverQuota):
        raise granted
