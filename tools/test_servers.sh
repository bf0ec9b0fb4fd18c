#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install PostgreSQL, MariaDB and RabbitMQ for the tests, which start their own instances. Starts no service.
# Does nothing if all are installed. With --names it only prints the missing packages.
set -euo pipefail

missing=()
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null; then missing+=(postgresql); fi
if [ ! -x /usr/sbin/mariadbd ] && ! command -v mariadbd >/dev/null; then missing+=(mariadb-server-core); fi
if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; then missing+=(rabbitmq-server); fi
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi
if [ "${1:-}" = --names ]; then printf '%s\n' "${missing[@]}" && exit 0; fi
exec "$(dirname "$0")/debian_packages.sh" 'test servers' 'about half a minute' "${missing[@]}"
