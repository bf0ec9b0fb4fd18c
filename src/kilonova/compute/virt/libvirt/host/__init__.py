# SPDX-License-Identifier: Apache-2.0
"""What the host can do and has, and what it reports of that to the scheduler."""
