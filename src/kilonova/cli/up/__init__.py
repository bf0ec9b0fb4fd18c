# SPDX-License-Identifier: Apache-2.0
"""``kilonova up``: a whole cloud on one machine, whose processes are children of one supervisor process."""
