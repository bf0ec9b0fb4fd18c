# SPDX-License-Identifier: Apache-2.0
from oslo_log import log as logging

from nova.scheduler import filters
from nova.scheduler.filters import extra_specs_ops
from nova.scheduler.filters import utils

LOG = logging.getLogger(__name__)

_SCOPE = 'license'


class LicenseFilter(filters.BaseHostFilter):
    """Flavors that ask for a licence need a host whose aggregates have it."""

    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        instance_type = spec_obj.flavor
        if 'extra_specs' not in instance_type:
            return True
        metadata = utils.aggregate_metadata_get_by_host(host_state)
        for key, req in instance_type.extra_specs.items():
            scope = key.split(':', 1)
            if len(scope) == 1 or scope[0] != _SCOPE:
                continue
            aggregate_vals = metadata.get(scope[1], None)
            if not aggregate_vals:
                LOG.debug("%(host_state)s lacks %(key)s", {'host_state': host_state, 'key': scope[1]})
                return False
            for aggregate_val in aggregate_vals:
                if extra_specs_ops.match(aggregate_val, req):
                    break
            else:
                return False
        return True
