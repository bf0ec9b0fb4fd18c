# SPDX-License-Identifier: Apache-2.0
"""Capabilities and resources of a libvirt host, and their form in the host's report to the scheduler."""
