# SPDX-License-Identifier: Apache-2.0
"""The format of the change log and of checkpoints: typed changes, and their codec (ADR 17).

``db.core.change_log`` stores the rows, ``db.checkpoints`` the checkpoints; ``mirror`` applies both.
"""
