# SPDX-License-Identifier: Apache-2.0
import collections

from nova.scheduler import filters


class EmptiestRackFilter(filters.BaseHostFilter):
    """Keep the rack with the fewest instances: this one has to see all hosts together."""

    def filter_all(self, filter_obj_list, spec_obj):
        racks = collections.defaultdict(list)
        for obj in filter_obj_list:
            racks[obj.host.split('-')[0]].append(obj)
        emptiest = min(sorted(racks), key=lambda r: sum(o.num_instances for o in racks[r]))
        for obj in racks[emptiest]:
            yield obj
