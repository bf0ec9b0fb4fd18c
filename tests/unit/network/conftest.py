# SPDX-License-Identifier: Apache-2.0
from support.neutron_world import neutron_with_users, world

__all__ = ["neutron_with_users", "world"]
