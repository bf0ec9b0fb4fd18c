# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import filters


class NearVolumeFilter(filters.BaseHostFilter):
    """The hint near_volume names a host, or several."""

    def _hosts(self, spec_obj):
        wanted = spec_obj.get_scheduler_hint('near_volume')
        if not wanted:
            return []
        if isinstance(wanted, str):
            wanted = [wanted]
        return wanted

    def host_passes(self, host_state, spec_obj):
        wanted = self._hosts(spec_obj)
        if not wanted:
            return True
        return host_state.host in wanted
