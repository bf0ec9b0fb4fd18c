# SPDX-License-Identifier: Apache-2.0
"""``[scheduler] nova_import_compat``: stand-ins for the modules of Nova that external rules import.

The stand-ins exist only if the option is set, and contain only names that rules use. OpenStack's documentation tells
readers to put modules of their own into Nova's folders (``nova/scheduler/ip_scheduler.py``). Such modules are imported
from the folders of ``plugin_path`` and from Kilonova's examples.
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
# folder of the examples in an installed package, and in a source checkout
_EXAMPLES = (_PACKAGE / "examples", _PACKAGE.parent.parent / "examples")
#: Packages of Nova into which OpenStack's documentation tells readers to put modules of their own.
_OPEN = ("nova.scheduler", "nova.scheduler.filters", "nova.scheduler.weights")


def install(folders: Iterable[str] = ()) -> None:
    """Make ``nova.scheduler`` and related modules importable, including the modules in ``folders``. Idempotent.

    Raises: ConfigurationError if Nova itself is installed, because rules would import modules of Nova, too.
    """
    present = sys.modules.get("nova")
    if present is not None and present.__doc__ == _DOC:
        _open(folders)
        return
    if present is not None or importlib.util.find_spec("nova") is not None:
        raise ConfigurationError(
            "[scheduler] nova_import_compat: Nova itself is installed, and its modules are not replaced. "
            "Uninstall Nova, or switch the option off."
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
    """Make the modules in ``folders`` and in the examples importable as modules of the packages in ``_OPEN``."""
    places = [*(str(Path(folder.strip()).absolute()) for folder in folders if folder.strip()), *map(str, _EXAMPLES)]
    for name in _OPEN:
        sys.modules[name].__path__ = places


class NovaException(KilonovaError):
    """Stand-in for Nova's base class of exceptions.

    The message is ``msg_fmt``, formatted with the keyword arguments.
    """

    msg_fmt = "An unknown exception occurred."

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message or self.msg_fmt % kwargs, **kwargs)
        self.kwargs = kwargs


class ComputeAPI:
    """Stand-in for the API by which older drivers start instances.

    It only records the host. Kilonova then claims the host and builds the instance.
    """

    def run_instance(self, context: RequestContext, instance: Mapping[str, Any], host: str, **others: Any) -> None:
        """Record the host on which an instance is to be built. ``others``: request data that Kilonova already has."""
        del others
        context.launches.run(instance["uuid"], host)


def _modules() -> Mapping[str, Mapping[str, Any]]:
    """Return module name → its attributes by name. A package precedes its modules."""
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
