# SPDX-License-Identifier: Apache-2.0
"""The change log that mirrors follow: its typed changes and their format, the log itself, and checkpoints (ADR 17)."""
