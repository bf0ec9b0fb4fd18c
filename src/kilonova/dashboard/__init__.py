# SPDX-License-Identifier: Apache-2.0
"""The dashboard: pages of a cloud for browsers. A process of its own, and a client of the public APIs only."""
