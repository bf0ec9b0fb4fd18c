# SPDX-License-Identifier: Apache-2.0
"""Metadata API, called by Neutron's metadata agents for guests. Requests are signed, and need no Keystone token."""
