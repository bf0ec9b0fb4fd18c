# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds each kind of process from its settings."""
