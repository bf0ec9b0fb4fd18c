# SPDX-License-Identifier: Apache-2.0
"""One module a workflow: its facts, its steps, and what it means for its server. ``registry`` lists them all."""
