# SPDX-License-Identifier: Apache-2.0
"""A driver that runs instances itself, as they were written until Icehouse."""
from nova.compute import rpcapi
from nova import exception
from nova.openstack.common import log as logging
from nova.scheduler import driver

LOG = logging.getLogger(__name__)


class RackRunner(driver.Scheduler):

    def __init__(self, *args, **kwargs):
        super(RackRunner, self).__init__(*args, **kwargs)
        self.compute_rpcapi = rpcapi.ComputeAPI()

    def _pick(self, context, number):
        hosts = [host for host in self.hosts_up(context.elevated(), 'compute') if host.startswith('rack2')]
        if number >= len(hosts):
            raise exception.NoValidHost(reason='Rack 2 is full')
        return hosts[number]

    def select_destinations(self, context, request_spec, filter_properties):
        return [dict(host='rack1-a', nodename=None, limits=None)] * request_spec['num_instances']

    def schedule_run_instance(self, context, request_spec, admin_password, injected_files, requested_networks,
                              is_first_time, filter_properties, legacy_bdm_in_spec):
        LOG.debug("request_spec = %(request_spec)s" % locals())
        LOG.debug("filter_properties = %(filter_properties)s" % locals())
        LOG.debug("context = %(context)s" % {'context': context.__dict__})
        for num, instance_uuid in enumerate(request_spec.get('instance_uuids')):
            request_spec['instance_properties']['launch_index'] = num
            try:
                host = self._pick(context, num)
                instance = driver.instance_update_db(context, instance_uuid)
                self.compute_rpcapi.run_instance(
                    context, instance=instance, host=host, requested_networks=requested_networks,
                    injected_files=injected_files, admin_password=admin_password, is_first_time=is_first_time,
                    request_spec=request_spec, filter_properties=filter_properties,
                    legacy_bdm_in_spec=legacy_bdm_in_spec)
            except Exception as ex:
                driver.handle_schedule_error(context, ex, instance_uuid, request_spec)
