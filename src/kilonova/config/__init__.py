# SPDX-License-Identifier: Apache-2.0
"""Settings: oslo.config files read once in ``cli/`` into frozen dataclasses that are handed down.

Names and defaults are those operators know from nova.conf; what is new says so in its help text.
A section is a dataclass in a module of its own, and a field of :class:`~kilonova.config.settings.Settings`.
"""
