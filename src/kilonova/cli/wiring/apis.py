# SPDX-License-Identifier: Apache-2.0
"""Combines the compute, Placement and operator APIs, with authentication, in one WSGI application."""

import logging
from collections.abc import Callable
from typing import Any

from kilonova.api import auth
from kilonova.api.application import WsgiApp, family_app, mount
from kilonova.api.backend import Backend
from kilonova.api.compute import family as compute_api
from kilonova.api.health import everywhere
from kilonova.api.metadata.application import MetadataApi, with_metadata
from kilonova.api.operator import family as operator_api
from kilonova.api.placement import family as placement_api
from kilonova.api.policy import Policy
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)


#: The policy rules of all APIs.
RULES = (*compute_api.RULES, *placement_api.RULES, *operator_api.RULES)


def policy_of(conf: Any) -> Policy:
    """Return the access policy of all APIs."""
    return Policy(conf, RULES)


def application_of(settings: Settings, backend: Backend, agents: WsgiApp | None = None) -> WsgiApp:
    """Return a WSGI application that serves ``/compute``, ``/placement``, ``/operator``, and ``/agents`` by ``agents``.

    With ``[neutron] service_metadata_proxy`` it also serves the metadata of guests. Raises: ConfigurationError.
    """
    compute = family_app(compute_api.ComputeFamily, backend)
    placement = family_app(placement_api.PlacementFamily, backend)
    operator = family_app(operator_api.OperatorFamily, backend)
    if settings.api.auth_strategy == "noauth2":
        LOG.warning(
            "[api] auth_strategy = noauth2: no passwords are checked, and every client can act as administrator"
        )
        apps: dict[str, WsgiApp] = {
            "/compute": auth.noauth2(compute, plain_roles=("member", "reader")),
            "/placement": auth.noauth2(placement, plain_roles=()),
            "/operator": auth.noauth2(operator, plain_roles=("member", "reader")),
        }
    else:
        protect: Callable[[WsgiApp], WsgiApp] = auth.keystone(settings.conf)
        apps = {"/compute": protect(compute), "/placement": protect(placement), "/operator": protect(operator)}
    if agents is not None:
        apps["/agents"] = agents  # hosts authenticate by tickets for image data, not by Keystone tokens
    return auth.with_cors(
        _with_metadata(mount({**apps, **everywhere(backend.health, apps)}), settings, backend), settings.conf
    )


def _with_metadata(application: WsgiApp, settings: Settings, backend: Backend) -> WsgiApp:
    if not settings.neutron.service_metadata_proxy:
        return application
    secret = settings.neutron.metadata_proxy_shared_secret
    if not secret:
        raise ConfigurationError("[neutron] service_metadata_proxy needs metadata_proxy_shared_secret")
    servers, kept_s = backend.conductor.operations.guest_metadata, settings.metadata.cache_expiration_s
    return with_metadata(application, MetadataApi(secret, servers.files, servers.post_password, kept_s))
