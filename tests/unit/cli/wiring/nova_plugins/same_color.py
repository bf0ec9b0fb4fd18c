# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import weights


class SameColorWeigher(weights.BaseHostWeigher):
    """Prefer the colour of the request, judged against all the hosts at once; from before aggregates had a say."""

    def weight_multiplier(self):
        return 1.5

    def weigh_objects(self, weighed_obj_list, weight_properties):
        color = weight_properties.get_scheduler_hint('color')
        found = []
        for weighed in weighed_obj_list:
            names = [aggregate.name for aggregate in weighed.obj.aggregates]
            found.append(1.0 if color in names else 0.0)
        return found
