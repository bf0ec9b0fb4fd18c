#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install Debian's Chromium and its driver, with which tests use Horizon. Does nothing when both are there.
set -euo pipefail

if [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ]; then exit 0; fi
exec "$(dirname "$0")/debian_packages.sh" browser 'about a minute' chromium chromium-driver
