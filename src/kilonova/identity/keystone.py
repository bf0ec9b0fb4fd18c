# SPDX-License-Identifier: Apache-2.0
"""Keystone sessions and clients made from nova.conf's sections, such as [keystone_authtoken] and [oslo_limit]."""

from collections.abc import Mapping, Sequence
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from kilonova.errors import ConfigurationError, NotFound, Unavailable
from kilonova.identity.direct_connections import DirectConnections
from kilonova.identity.limits import LimitSource
from kilonova.identity.projects import AnyProject, KeystoneProjects, Projects

_IMAGES, _COMPUTE, _NETWORK, _SERVICE_USER = "glance", "nova", "neutron", "service_user"
_TOKENS, _LIMITS = "keystone_authtoken", "oslo_limit"
#: Read timeout for the image service in seconds, used if [glance] timeout is unset.
_SILENCE_S = 60.0
#: Timeout for the compute API in seconds, used if [nova] timeout is unset.
_ANSWER_S = 10.0
#: Timeout for the network service in seconds, used if [neutron] timeout is unset.
_NETWORK_ANSWER_S = 30.0
#: Maximum number of idle connections to the network service. A process has at most one busy connection per thread.
_NETWORK_CONNECTIONS = 32
#: Options that oslo.limit adds to keystoneauth's login options.
_SERVICE = ("endpoint_id", "endpoint_service_type", "endpoint_service_name", "endpoint_region_name")


def projects_of(conf: Any, endpoint: str | None, *, verify: bool | str) -> Projects:
    """Return a check of project ids by Keystone, or, without a Keystone URL, a check that accepts every id.

    ``endpoint``: URL of Keystone; None for [keystone_authtoken] auth_url.
    """
    conf.register_opts(loading.get_auth_plugin_conf_options("password"), group=_TOKENS)
    url = endpoint or conf[_TOKENS].auth_url
    if not url:
        return AnyProject()
    return KeystoneProjects(url, verify=verify)


def told_of_token(conf: Any, token: str) -> Mapping[str, Any]:
    """Return Keystone's description of a token, requested with the credentials of Kilonova's own user.

    Raises: ConfigurationError, NotFound, Unavailable.
    """
    loading.register_auth_conf_options(conf, _TOKENS)
    loading.register_session_conf_options(conf, _TOKENS)
    try:
        auth = loading.load_auth_from_conf_options(conf, _TOKENS)
        if auth is None:
            raise ConfigurationError("[keystone_authtoken] has no credentials for validating tokens at Keystone")
        session = loading.load_session_from_conf_options(conf, _TOKENS, auth=auth)
        answer = session.get(
            "/auth/tokens",
            endpoint_filter={"service_type": "identity", "interface": "public", "version": (3, 0)},
            headers={"X-Subject-Token": token},
        )
    except exceptions.NotFound:
        raise NotFound("the token is unknown to Keystone, or has expired") from None
    except (exceptions.ClientException, exceptions.AuthPluginException) as error:
        raise Unavailable(f"Keystone cannot validate the token: {error}") from error
    told: Mapping[str, Any] = answer.json()["token"]
    return told


def limits_of(conf: Any) -> LimitSource:
    """Return the source of unified limits configured in [oslo_limit]. It connects to Keystone on first use."""
    # Only this quota driver needs the SDK. It is imported before threads start, because concurrent imports of the SDK
    # fail.
    from openstack.connection import Connection  # noqa: PLC0415 - start-up time
    from oslo_limit import opts  # noqa: PLC0415 - start-up time

    from kilonova.identity.unified_limits import KeystoneLimits  # noqa: PLC0415 - start-up time

    loading.register_auth_conf_options(conf, _LIMITS)
    loading.register_session_conf_options(conf, _LIMITS)
    loading.register_adapter_conf_options(conf, _LIMITS, include_deprecated=False)
    listed = {option.name: option for _, options in opts.list_opts() for option in options}
    conf.register_opts([listed[name] for name in _SERVICE], group=_LIMITS)
    section = conf[_LIMITS]

    def connect() -> Connection:
        auth = loading.load_auth_from_conf_options(conf, _LIMITS)
        return Connection(
            session=loading.load_session_from_conf_options(conf, _LIMITS, auth=auth),
            region_name=section.region_name,
            identity_interface=section.valid_interfaces or "public",
            identity_endpoint_override=section.endpoint_override,
        )

    return KeystoneLimits(
        connect,
        endpoint_id=section.endpoint_id,
        service_type=section.endpoint_service_type or (None if section.endpoint_service_name else "compute"),
        service_name=section.endpoint_service_name,
        region=section.endpoint_region_name,
    )


def image_session_of(conf: Any) -> Session | None:
    """Return a session of Kilonova's own user for the image service.

    The credentials are those of [glance], or else of [service_user]; None if neither section has credentials. The
    session connects on first use.
    Raises: ConfigurationError.
    """
    return _own_session(conf, _IMAGES, _SILENCE_S)


def compute_adapter_of(conf: Any) -> Adapter | None:
    """Return a compute API client of Kilonova's own user, with the credentials of [nova], or else of [service_user].

    [nova] has the format that other services use for Nova; its ``endpoint_override`` takes precedence over the
    catalogue. Return None if neither section has credentials. The client connects on first use. Raises:
    ConfigurationError.
    """
    loading.register_adapter_conf_options(conf, _COMPUTE, include_deprecated=False)
    conf.set_default("service_type", "compute", group=_COMPUTE)
    session = _own_session(conf, _COMPUTE, _ANSWER_S)
    if session is None:
        return None
    return loading.load_adapter_from_conf_options(conf, _COMPUTE, session=session, connect_retries=0)


def network_adapter_of(conf: Any) -> Adapter | None:
    """Return a client of the network service, with the credentials of Kilonova's own user in [neutron].

    Return None if [neutron] has no credentials: then there is no network service. The client connects on first use.
    Raises: ConfigurationError.
    """
    loading.register_adapter_conf_options(conf, _NETWORK, include_deprecated=False)
    for option, default in (("service_type", "network"), ("valid_interfaces", ["internal", "public"])):
        conf.set_default(option, default, group=_NETWORK)
    session = _own_session(
        conf, _NETWORK, _NETWORK_ANSWER_S, login=(_NETWORK,), session=DirectConnections(_NETWORK_CONNECTIONS)
    )
    if session is None:
        return None
    return loading.load_adapter_from_conf_options(conf, _NETWORK, session=session)


def _own_session(
    conf: Any, service: str, timeout_s: float, *, login: Sequence[str] = (), **options: Any
) -> Session | None:
    """Return a session of Kilonova's own user; None if no section has credentials.

    ``login``: the sections that may have them; by default section ``service``, then [service_user]. ``timeout_s``:
    timeout in seconds if the section sets none. ``options``: options of the session. Raises: ConfigurationError.
    """
    sections = login or (service, _SERVICE_USER)
    for group in sections:
        loading.register_auth_conf_options(conf, group)
        loading.register_session_conf_options(conf, group)
    named = [group for group in sections if conf[group].auth_section or conf[group].auth_type]
    if not named:
        return None
    try:
        auth = loading.load_auth_from_conf_options(conf, named[0])
        session = loading.load_session_from_conf_options(conf, service, auth=auth, **options)
    except (exceptions.ClientException, exceptions.AuthPluginException) as error:
        raise ConfigurationError(f"[{named[0]}] has no valid credentials for Kilonova's user: {error}") from error
    session.timeout = session.timeout or timeout_s
    return session
