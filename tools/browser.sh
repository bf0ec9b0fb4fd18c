#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install Debian's Chromium and its driver, with which tests use Horizon. Does nothing when both are there.
set -euo pipefail

say() { printf 'browser: %s\n' "$*"; }
fail() { printf 'browser: %s\n' "$*" >&2; exit 1; }

if [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ]; then exit 0; fi

root=()
if [ "$(id -u)" -ne 0 ]; then root=(sudo -n); fi
command -v apt-get >/dev/null || fail "please install chromium and chromium-driver; only Debian's apt-get is known here"
"${root[@]}" true || fail "please install chromium and chromium-driver; this needs root"

say "installing chromium and chromium-driver (about a minute)"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends chromium chromium-driver; } </dev/null |
    awk '/^(Get:|Unpacking|Setting up)/ { print "browser:   " $1 " " $2 " " $3; fflush() }'; then
    fail "apt-get could not install them"
fi
say "done"
