# SPDX-License-Identifier: Apache-2.0
"""Change feed: the commits of the change log as events for operators' tools (ADR 43)."""
