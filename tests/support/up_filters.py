# SPDX-License-Identifier: Apache-2.0
"""Filters of a cloud of `kilonova up`."""

from typing import Any

from kilonova.cli.up.cloud_files import Cloud, write_conf
from kilonova.cli.up.operator_file import operator_options
from kilonova.config.load import load_settings


def filters_of(cloud: Cloud, scenario: dict[str, Any] | None = None, more: str = "") -> tuple[str, ...]:
    """Return the enabled filters, with options of a scenario and ``more`` as the file of the operator."""
    own = cloud.folder / "own.conf"
    own.write_text(more)
    write_conf(cloud, None, scenario or {}, operator_options(own))
    return load_settings([str(cloud.conf), str(own)]).scheduler.enabled_filters
