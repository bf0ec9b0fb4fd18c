#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install Debian's Chromium and ChromeDriver for the tests of Horizon. Does nothing if both are installed.
set -euo pipefail

if [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ]; then exit 0; fi
exec "$(dirname "$0")/debian_packages.sh" browser 'about a minute' chromium chromium-driver
