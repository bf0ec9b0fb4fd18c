# SPDX-License-Identifier: Apache-2.0
"""Metadata of the guests of one host. The agent asks the control plane, and answers the host's metadata service."""
