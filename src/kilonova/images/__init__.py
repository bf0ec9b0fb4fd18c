# SPDX-License-Identifier: Apache-2.0
"""Where images come from: a short-lived cache in front of Glance, or a fixed set for a cloud without one."""
