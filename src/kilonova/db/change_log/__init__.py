# SPDX-License-Identifier: Apache-2.0
"""The format of the change log and of checkpoints: typed changes, and their one codec (ADR 17).

``db.core.change_log`` has the rows, ``db.checkpoints`` the checkpoints, ``mirror`` follows.
"""
