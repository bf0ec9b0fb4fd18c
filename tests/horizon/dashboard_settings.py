# SPDX-License-Identifier: Apache-2.0
"""Horizon's settings for the tests: its defaults with these changes.

``KILONOVA_HORIZON_FOLDER``: folder for its files. ``KILONOVA_HORIZON_KEYSTONE``: URL of Keystone.
``KILONOVA_HORIZON_NETWORKS``: "yes" if the cloud has a network service.
"""

import os
from pathlib import Path

from openstack_dashboard.settings import *  # noqa: F403 (Django reads every name of the module)
from openstack_dashboard.settings import HORIZON_CONFIG as _HORIZON_CONFIG
from openstack_dashboard.settings import MIDDLEWARE as _MIDDLEWARE

_FOLDER = Path(os.environ["KILONOVA_HORIZON_FOLDER"])
OPENSTACK_KEYSTONE_URL = os.environ["KILONOVA_HORIZON_KEYSTONE"]

DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = os.environ["KILONOVA_HORIZON_SECRET"]
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
STATIC_ROOT = COMPRESS_ROOT = str(_FOLDER / "static")
COMPRESS_OFFLINE = True
MIDDLEWARE = ("whitenoise.middleware.WhiteNoiseMiddleware", *_MIDDLEWARE)  # WhiteNoise serves the files of STATIC_ROOT
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
HORIZON_CONFIG = _HORIZON_CONFIG
if os.environ["KILONOVA_HORIZON_NETWORKS"] != "yes":
    # a module in examples/
    HORIZON_CONFIG = {**_HORIZON_CONFIG, "customization_module": "horizon_overrides.without_networks"}
# Without a volume service the launch wizard may only offer images, and must not create a volume.
LAUNCH_INSTANCE_DEFAULTS = {"create_volume": False, "hide_create_volume": True}
