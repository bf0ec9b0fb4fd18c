# SPDX-License-Identifier: Apache-2.0
"""A driver as they were written for Havana."""
import random

from oslo_config import cfg

from nova.compute import rpcapi as compute_rpcapi
from nova import exception
from nova.openstack.common import log as logging
from nova.openstack.common.gettextutils import _
from nova.scheduler import driver

CONF = cfg.CONF
CONF.import_opt('compute_topic', 'nova.compute.rpcapi')
LOG = logging.getLogger(__name__)


class AddressScheduler(driver.Scheduler):

    def __init__(self, *args, **kwargs):
        super(AddressScheduler, self).__init__(*args, **kwargs)
        self.compute_rpcapi = compute_rpcapi.ComputeAPI()

    def select_destinations(self, context, request_spec, filter_properties):
        hosts = self.hosts_up(context.elevated(), CONF.compute_topic)
        prefix = 'rack1' if context.remote_address.startswith('10.') else 'rack2'
        hosts = [host for host in hosts if host.startswith(prefix)]
        if not hosts:
            raise exception.NoValidHost(reason=_("No host of that rack"))
        dests = []
        for num, uuid in enumerate(request_spec['instance_uuids']):
            request_spec['instance_properties']['launch_index'] = num
            host = random.choice(hosts)
            LOG.debug("Request from %(ip)s scheduled to %(host)s", {'ip': context.remote_address, 'host': host})
            dests.append(dict(host=host, nodename=None, limits=None))
        return dests
