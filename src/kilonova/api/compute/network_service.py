# SPDX-License-Identifier: Apache-2.0
"""Requests of API handlers to the network service, with the rights of the caller."""

from kilonova.api.compute.missing_services import NETWORK, no_service
from kilonova.api.faults import HttpError
from kilonova.api.http import Context
from kilonova.network.client import NetworkClient


def network_of(ctx: Context) -> NetworkClient:
    """Return the client of the network service. Raises: InvalidRequest if none is configured."""
    if ctx.backend.network is None:
        raise no_service(NETWORK)
    return ctx.backend.network


def token_of(ctx: Context) -> str:
    """Return the token of the caller; never None, which would stand for Kilonova's own user."""
    if ctx.credentials.token is None:
        raise HttpError(401, "The request has no token.")
    return ctx.credentials.token
