# SPDX-License-Identifier: Apache-2.0
"""Decide, assume, commit, confirm or forget: the only caller of engine, mirror and database together.

In: an order for servers. Out: where they went, durably, or NoValidHost with the reasons.
"""
