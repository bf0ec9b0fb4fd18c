# SPDX-License-Identifier: Apache-2.0
"""What Keystone is asked beside tokens: whether a project exists, and limits that are kept there."""
