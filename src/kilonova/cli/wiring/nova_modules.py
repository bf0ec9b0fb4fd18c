# SPDX-License-Identifier: Apache-2.0
"""``[scheduler] nova_import_compat``: the modules of Nova that rules from outside import, over Kilonova's own.

Nothing of this is there unless it is switched on. Only what rules use of these modules is in them. A module that
documents put into Nova's folders (``nova/scheduler/ip_scheduler.py``) is found in those of ``plugin_path``, and
in that of the examples.
"""

import importlib.util
import logging
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import kilonova
from kilonova.config.configuration import shared_conf
from kilonova.errors import ConfigurationError, KilonovaError, NoValidHost
from kilonova.scheduler import aggregate_values, extra_specs, filters, weighers
from kilonova.scheduler.driver import (
    FilterScheduler,
    RequestContext,
    Scheduler,
    handle_schedule_error,
    instance_update_db,
)
from kilonova.scheduler.nova_compat.host_state import HostState
from kilonova.scheduler.weighers.base import BaseHostWeigher, WeighedHost

_DOC = "Stands in for the module of this name in Nova; made by Kilonova, [scheduler] nova_import_compat."
_PACKAGE = Path(kilonova.__file__).parent
_EXAMPLES = (_PACKAGE / "examples", _PACKAGE.parent.parent / "examples")  # installed; in a checkout
#: Packages into which documents tell their readers to put a module.
_OPEN = ("nova.scheduler", "nova.scheduler.filters", "nova.scheduler.weights")


def install(folders: Iterable[str] = ()) -> None:
    """Make ``nova.scheduler`` and what belongs to it importable, the modules in ``folders`` included.

    Done already is success.

    Raises: ConfigurationError, when a real Nova is installed: rules would get part of one and part of the other.
    """
    present = sys.modules.get("nova")
    if present is not None and present.__doc__ == _DOC:
        _open(folders)
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
    _open(folders)


def _open(folders: Iterable[str]) -> None:
    """Have the modules in ``folders``, and then the examples, found in the packages that documents add modules to."""
    places = [*(str(Path(folder.strip()).absolute()) for folder in folders if folder.strip()), *map(str, _EXAMPLES)]
    for name in _OPEN:
        sys.modules[name].__path__ = places


class NovaException(KilonovaError):
    """The way Nova words its errors: ``msg_fmt`` filled in with the arguments."""

    msg_fmt = "An unknown exception occurred."

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message or self.msg_fmt % kwargs, **kwargs)
        self.kwargs = kwargs


class ComputeAPI:
    """What older drivers run instances with. Here it notes where: the claim and the build are Kilonova's own."""

    def run_instance(self, context: RequestContext, instance: Mapping[str, Any], host: str, **others: Any) -> None:
        """Have an instance built on a host. ``others``, the rest of what the request says, is known already."""
        del others
        context.launches.run(instance["uuid"], host)


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
        "nova.scheduler.driver": {
            "Scheduler": Scheduler,
            "handle_schedule_error": handle_schedule_error,
            "instance_update_db": instance_update_db,
        },
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
