# SPDX-License-Identifier: Apache-2.0
"""Plans that are applied: moves in waves, each begun as an ordinary move of a server."""
