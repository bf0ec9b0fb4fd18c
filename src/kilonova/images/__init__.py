# SPDX-License-Identifier: Apache-2.0
"""Image sources: Glance, with a cache of a few seconds, or a fixed set of images for a cloud without Glance."""
