#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install PostgreSQL, MariaDB and RabbitMQ, which the tests start for themselves. Starts no service.
# Does nothing when all are there.
set -euo pipefail

say() { printf 'test servers: %s\n' "$*"; }
fail() { printf 'test servers: %s\n' "$*" >&2; exit 1; }

missing=()
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null; then missing+=(postgresql); fi
if [ ! -x /usr/sbin/mariadbd ] && ! command -v mariadbd >/dev/null; then missing+=(mariadb-server-core); fi
if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; then missing+=(rabbitmq-server); fi
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

root=()
if [ "$(id -u)" -ne 0 ]; then root=(sudo -n); fi
command -v apt-get >/dev/null || fail "please install ${missing[*]}; only Debian's apt-get is known here"
"${root[@]}" true || fail "please install ${missing[*]}; this needs root"

# Debian asks this script whether a freshly installed service may start. It may not.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f "$policy"' EXIT
fi

say "installing ${missing[*]} (about half a minute)"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } </dev/null |
    awk '/^(Get:|Unpacking|Setting up)/ { print "test servers:   " $1 " " $2 " " $3; fflush() }'; then
    fail "apt-get could not install ${missing[*]}"
fi
say "done"
