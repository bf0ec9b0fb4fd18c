# SPDX-License-Identifier: Apache-2.0
from oslo_log import log as logging

from nova.i18n import _LI
from nova.scheduler import filters
from nova.scheduler.filters import utils

LOG = logging.getLogger(__name__)


class ReservedRackFilter(filters.BaseHostFilter):
    """Racks whose aggregates name projects take these projects only."""

    # Aggregates do not change in the middle of a request
    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        projects = utils.aggregate_values_from_key(host_state, 'rack_projects')
        if not projects:
            return True
        allowed = set()
        for value in projects:
            allowed.update([p.strip() for p in value.split(',')])
        if spec_obj.project_id not in allowed:
            LOG.info(_LI("%(host)s is reserved for %(projects)s"),
                     {'host': host_state, 'projects': sorted(allowed)})
            return False
        return True
