# SPDX-License-Identifier: Apache-2.0
"""``[scheduler] nova_import_compat``: the modules of Nova that rules from outside import, over Kilonova's own.

Nothing of this is there unless it is switched on. Only what rules use of these modules is in them.
"""

import importlib.util
import logging
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from kilonova.config.configuration import shared_conf
from kilonova.errors import ConfigurationError, KilonovaError, NoValidHost
from kilonova.scheduler import aggregate_values, extra_specs, filters, weighers
from kilonova.scheduler.driver import FilterScheduler, RequestContext, Scheduler
from kilonova.scheduler.nova_compat.host_state import HostState
from kilonova.scheduler.weighers.base import BaseHostWeigher, WeighedHost

_DOC = "Stands in for the module of this name in Nova; made by Kilonova, [scheduler] nova_import_compat."


def install() -> None:
    """Make ``nova.scheduler`` and what belongs to it importable. Done already is success.

    Raises: ConfigurationError, when a real Nova is installed: rules would get part of one and part of the other.
    """
    present = sys.modules.get("nova")
    if present is not None and present.__doc__ == _DOC:
        return
    if present is not None or importlib.util.find_spec("nova") is not None:
        raise ConfigurationError(
            "[scheduler] nova_import_compat: Nova itself is installed here, and its modules are not replaced. "
            "Remove it, or switch the option off."
        )
    for name, content in _modules().items():
        module = ModuleType(name, _DOC)
        module.__path__ = []
        vars(module).update(content)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


class NovaException(KilonovaError):
    """The way Nova words its errors: ``msg_fmt`` filled in with the arguments."""

    msg_fmt = "An unknown exception occurred."

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message or self.msg_fmt % kwargs, **kwargs)
        self.kwargs = kwargs


class ComputeAPI:
    """What older drivers make and only use to run instances, which Kilonova does itself."""


def _modules() -> Mapping[str, Mapping[str, Any]]:
    """Return module → its content, parents before children."""
    words = dict.fromkeys(("_", "_LI", "_LW", "_LE", "_LC"), _as_it_is)
    conf = {"CONF": shared_conf()}
    log = {"getLogger": logging.getLogger}
    helpers = ("aggregate_values_from_key", "aggregate_metadata_get_by_host", "validate_num_values")
    aggregates = {name: getattr(aggregate_values, name) for name in (*helpers, "instance_uuids_overlap")}
    weigher = {"BaseHostWeigher": BaseHostWeigher, "WeighedHost": WeighedHost, "all_weighers": weighers.all_weighers}
    return {
        "nova": {},
        "nova.conf": conf,
        "nova.config": conf,
        "nova.i18n": words,
        "nova.exception": {"NovaException": NovaException, "NoValidHost": NoValidHost},
        "nova.context": {"RequestContext": RequestContext},
        "nova.filters": {"BaseFilter": filters.BaseHostFilter},
        "nova.weights": {"BaseWeigher": BaseHostWeigher, "WeighedObject": WeighedHost},
        "nova.compute": {},
        "nova.compute.rpcapi": {"ComputeAPI": ComputeAPI},
        "nova.openstack": {},
        "nova.openstack.common": {},
        "nova.openstack.common.log": log,
        "nova.openstack.common.gettextutils": words,
        "nova.scheduler": {},
        "nova.scheduler.driver": {"Scheduler": Scheduler},
        "nova.scheduler.filter_scheduler": {"FilterScheduler": FilterScheduler},
        "nova.scheduler.host_manager": {"HostState": HostState},
        "nova.scheduler.utils": {"get_weight_multiplier": aggregate_values.get_weight_multiplier},
        "nova.scheduler.filters": {"BaseHostFilter": filters.BaseHostFilter, "all_filters": filters.all_filters},
        "nova.scheduler.filters.utils": aggregates,
        "nova.scheduler.filters.extra_specs_ops": {"match": extra_specs.match},
        "nova.scheduler.weights": weigher,
    }


def _as_it_is(text: str) -> str:
    return text
