# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg
from oslo_log import log as logging

import nova.conf
from nova import exception
from nova.scheduler import filters
from nova.scheduler.filters import utils

headroom_opts = [
    cfg.IntOpt('ram_headroom_mb',
               default=1024,
               min=0,
               help='Memory that every host keeps free.'),
]

CONF = nova.conf.CONF
CONF.register_opts(headroom_opts, group='filter_scheduler')

LOG = logging.getLogger(__name__)


class BadHeadroom(exception.NovaException):
    msg_fmt = "Headroom %(value)s of %(host)s is no number"


class HeadroomFilter(filters.BaseHostFilter):

    def _headroom(self, host_state):
        found = utils.aggregate_values_from_key(host_state, 'ram_headroom_mb')
        try:
            return utils.validate_num_values(found, CONF.filter_scheduler.ram_headroom_mb, cast_to=int, based_on=max)
        except ValueError as e:
            LOG.warning("%s: %s", BadHeadroom(value=e, host=host_state.host), found)
            return CONF.filter_scheduler.ram_headroom_mb

    def host_passes(self, host_state, spec_obj):
        left = host_state.free_ram_mb - spec_obj.memory_mb
        host_state.limits['memory_mb'] = host_state.free_ram_mb
        if left < self._headroom(host_state):
            LOG.debug("%s has %d MB left", host_state, left)
            return False
        return True
