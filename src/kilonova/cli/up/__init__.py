# SPDX-License-Identifier: Apache-2.0
"""``kilonova up``: a whole cloud on one machine, as child processes of one supervisor."""
