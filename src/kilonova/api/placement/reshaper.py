# SPDX-License-Identifier: Apache-2.0
"""Reshaper: changes inventories of several providers and allocations of consumers in one transaction.  Since: 1.30."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.allocations import read_consumers
from kilonova.api.placement.bodies.reshaper import Reshape
from kilonova.api.placement.inventories import read_inventory
from kilonova.api.placement.policies import SERVICE, rule
from kilonova.api.placement.requests import PROVIDER_NOT_FOUND, read_body, takes_json
from kilonova.api.placement.schemas import allocations as schemas
from kilonova.api.typed_body import read_typed
from kilonova.db import reshape
from kilonova.db.core.transaction import Transaction
from kilonova.db.reshape import ProviderShape
from kilonova.errors import InvalidRequest, NotFound

_PATH = "/reshaper"
RULES = (rule("placement:reshaper:reshape", "Move inventories and allocations", ("POST", _PATH), check=SERVICE),)


@takes_json
def reshape_providers(ctx: Context, request: Request) -> Reply:
    """POST /reshaper.  Errors: 400 also for an unknown provider or resource class, 409.

    409 for a generation conflict, or if an inventory that would be deleted is in use, or a capacity would be exceeded.
    """
    ctx.authorize("placement:reshaper:reshape")
    body = read_typed(Reshape, read_body(request, schemas.RESHAPE))
    shapes = [
        ProviderShape(
            uuid,
            int(shape.resource_provider_generation),
            tuple(read_inventory(name, fields) for name, fields in shape.inventories.items()),
        )
        for uuid, shape in body.inventories.items()
    ]
    consumers = read_consumers(ctx, request, body.allocations)

    def job(tx: Transaction) -> None:
        try:
            reshape.reshape(tx, shapes, consumers)
        except NotFound as error:
            code = {"placement_code": PROVIDER_NOT_FOUND} if error.fields.get("provider") else {}
            raise InvalidRequest(f"malformed reshaper data: {error.message}", **code) from None

    ctx.write(job)
    return Reply(204)


ROUTES: Routes = {_PATH: {"POST": Endpoint(reshape_providers, since=Version(1, 30))}}
