# SPDX-License-Identifier: Apache-2.0
"""One module a command, named after it; ``kilonova.cli.application`` loads only the one that was asked for."""
