# SPDX-License-Identifier: Apache-2.0
"""API for agents at /agents: requests carry tickets instead of tokens (ADR 23)."""
