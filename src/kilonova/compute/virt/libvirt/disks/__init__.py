# SPDX-License-Identifier: Apache-2.0
"""The disks of guests, the images that they are made of, and the files that become images."""
