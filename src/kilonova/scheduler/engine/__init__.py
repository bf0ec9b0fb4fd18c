# SPDX-License-Identifier: Apache-2.0
"""How a decision is made: funnel, ranking, and further servers of the same request. Pure, without I/O."""
