# SPDX-License-Identifier: Apache-2.0
"""Worker processes of ``kilonova api``: several control processes on one port, forked and replaced by a parent."""
