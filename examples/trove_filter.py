# SPDX-License-Identifier: Apache-2.0
"""A filter for Trove, written for Nova: only its import line is changed. Trove hosts get only Trove images.

    [filter_scheduler]
    available_filters = kilonova.scheduler.filters.all_filters
    available_filters = trove_filter.TroveImageFilter
    enabled_filters = ComputeFilter,TroveImageFilter

Source: Matt Fischer, "Writing a Nova scheduler filter for Trove".
"""
# The code is kept as published.
# ruff: noqa: ANN001, ANN201, Q000, RET505, SIM118
# fmt: off

import logging

from kilonova.scheduler import filters

LOG = logging.getLogger(__name__)


class TroveImageFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        """Run Trove images on Trove nodes and not anywhere else."""

        image_props = spec_obj.get('request_spec', {}).\
            get('image', {}).get('properties', {})

        is_trove_host = False
        for ha in host_state.aggregates:
            if ha.name == 'Trove':
                is_trove_host = True

        # debug prints for is_trove_host here
        if is_trove_host:
            LOG.debug("%s is a trove node", host_state)
        else:
            LOG.debug("%s is NOT a trove node", host_state)

        is_trove_image = 'tesora_edition' in image_props.keys()

        if is_trove_image:
            return is_trove_host
        else:
            return not is_trove_host
