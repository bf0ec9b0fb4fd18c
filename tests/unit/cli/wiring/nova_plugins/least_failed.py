# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from nova.scheduler import utils
from nova.scheduler import weights

CONF = cfg.CONF
CONF.register_opts([
    cfg.FloatOpt('least_failed_weight_multiplier', default=2.0),
], group='filter_scheduler')


class LeastFailedWeigher(weights.BaseHostWeigher):
    minval = 0

    def weight_multiplier(self, host_state):
        """Override the weight multiplier."""
        return utils.get_weight_multiplier(
            host_state, 'least_failed_weight_multiplier',
            CONF.filter_scheduler.least_failed_weight_multiplier)

    def _weigh_object(self, host_state, weight_properties):
        """Higher weights win. We want few failures."""
        return -1 * host_state.failed_builds + 10
