# SPDX-License-Identifier: Apache-2.0
"""How Keystone is reached: what nova.conf's sections [keystone], [keystone_authtoken] and [oslo_limit] say."""

from typing import Any

from keystoneauth1 import loading

from kilonova.identity.limits import KeystoneLimits
from kilonova.identity.projects import AnyProject, KeystoneProjects, Projects

_TOKENS, _LIMITS = "keystone_authtoken", "oslo_limit"


def projects_of(conf: Any) -> Projects:
    """Return who knows the projects; where no address of Keystone is configured, nobody does."""
    conf.register_opts(loading.get_auth_plugin_conf_options("password"), group=_TOKENS)
    url = conf.keystone.endpoint_override or conf[_TOKENS].auth_url
    if not url:
        return AnyProject()
    return KeystoneProjects(url, verify=not conf.keystone.insecure and (conf.keystone.cafile or True))


def limits_of(conf: Any) -> KeystoneLimits:
    """Return where unified limits are, as [oslo_limit] says. Nobody is asked before they are needed."""
    from oslo_limit import opts  # noqa: PLC0415 - for the names of its options; needed with this driver only

    for _, options in opts.list_opts():
        conf.register_opts(options, group=_LIMITS)
    loading.register_auth_conf_options(conf, _LIMITS)
    section = conf[_LIMITS]
    return KeystoneLimits(
        lambda: _connect(conf),
        endpoint_id=section.endpoint_id,
        service_type=section.endpoint_service_type or (None if section.endpoint_service_name else "compute"),
        service_name=section.endpoint_service_name,
        region=section.endpoint_region_name,
    )


def _connect(conf: Any) -> Any:
    from openstack.connection import Connection  # noqa: PLC0415 - slow to import

    section = conf[_LIMITS]
    auth = loading.load_auth_from_conf_options(conf, _LIMITS)
    session = loading.load_session_from_conf_options(conf, _LIMITS, auth=auth)
    return Connection(
        session=session,
        region_name=section.region_name,
        identity_interface=section.valid_interfaces or "public",
        identity_endpoint_override=section.endpoint_override,
    )
