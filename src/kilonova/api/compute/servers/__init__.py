# SPDX-License-Identifier: Apache-2.0
"""``/servers`` of the compute API: the resource, its sub-resources and its actions."""
