# SPDX-License-Identifier: Apache-2.0
"""Folders of programs. Users other than root often lack the last two, which contain programs of administrators."""

import os

PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
