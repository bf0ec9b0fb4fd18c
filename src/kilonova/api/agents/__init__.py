# SPDX-License-Identifier: Apache-2.0
"""What hosts are served at /agents, with tickets in the place of tokens (ADR 23)."""
