# SPDX-License-Identifier: Apache-2.0
"""Settings: oslo.config files read once in ``cli/`` into frozen dataclasses that are handed down.

Names and defaults are those of nova.conf; help texts mark the options that are Kilonova's own. A section is a dataclass
in a module of its own, and a field of :class:`~kilonova.config.settings.Settings`.
"""
