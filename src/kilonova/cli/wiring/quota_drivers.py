# SPDX-License-Identifier: Apache-2.0
"""``[quota] driver``: selects the source of quota limits: the database, Keystone, an external class, or no limits."""

from kilonova.cli.wiring.dotted_paths import driver_class, made
from kilonova.config.quota import DB_QUOTAS, NO_QUOTAS, UNIFIED_LIMITS
from kilonova.config.settings import Settings
from kilonova.identity.limits import LimitSource, OutsideLimits, StoredLimits, Unlimited

GROUP = "kilonova.quota.drivers"
_OPTION = "[quota] driver"


def limit_source(settings: Settings) -> LimitSource:
    """Return the configured source of limits. Raises: ConfigurationError."""
    name = settings.quota.driver.strip()
    if name == UNIFIED_LIMITS:
        from kilonova.identity.keystone import limits_of  # noqa: PLC0415 - brings an HTTP client

        return limits_of(settings.conf)
    if name in {DB_QUOTAS, NO_QUOTAS}:
        return StoredLimits() if name == DB_QUOTAS else Unlimited()
    cls = driver_class(_OPTION, name, GROUP, (DB_QUOTAS, NO_QUOTAS, UNIFIED_LIMITS), ("of_project", "defaults"))
    return OutsideLimits(made(_OPTION, cls, **settings.conf.options_of(cls)))
