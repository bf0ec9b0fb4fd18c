# SPDX-License-Identifier: Apache-2.0
"""Libraries that the supervisor loads before it forks its children, so that they are loaded and stored once.

Only libraries that do nothing but define things when they are imported. Keystone and Glance themselves are not among
them: they read the command line.
"""

import contextlib
import importlib
from collections.abc import Sequence

from kilonova.bundled_services.deferred_modules import make_unavailable
from kilonova.lasting import made_to_last

#: Libraries of the control process that other children use, too.
COMMON = (
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "requests",
    "oslo_policy.policy",
    "oslo_utils.timeutils",
    "keystonemiddleware.auth_token",
    "kilonova.server.serving",
    "kilonova.server.server",
    "kilonova.bundled_services.log_file",
)
#: Further libraries of both Keystone and Glance.
OPENSTACK = (
    "oslo_db.sqlalchemy.enginefacade",
    "cryptography.x509",
    "dogpile.cache",
    "jsonschema",
    "oslo_cache",
    "oslo_log.log",
    "oslo_middleware",
    "paste.deploy",
)


def load_common() -> None:
    """Load the libraries that the control process shares with other children."""
    make_unavailable("eventlet")  # as in Keystone and Glance
    _load(COMMON)


def load_openstack() -> None:
    """Load the libraries that Keystone and Glance share."""
    _load(OPENSTACK)


def _load(names: Sequence[str]) -> None:
    with made_to_last():
        for name in names:
            with contextlib.suppress(ImportError):  # the child that needs it reports it
                importlib.import_module(name)
