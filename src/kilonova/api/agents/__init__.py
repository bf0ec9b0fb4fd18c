# SPDX-License-Identifier: Apache-2.0
"""API at /agents, called by agents only: a request carries a ticket instead of a Keystone token (ADR 23)."""
