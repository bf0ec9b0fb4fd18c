#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write the pages of docs/ that `kilonova docs` generates. A page is replaced only after it was generated without error.
set -euo pipefail
cd "$(dirname "$0")/.."

draft=$(mktemp)
trap 'rm -f "$draft"' EXIT
page() { .venv/bin/kilonova docs "${@:2}" >"$draft" && cat "$draft" >"docs/$1"; }

page notifications.md notifications
page operator-api.yaml operator-api
page states.md states
page states.svg states --format svg
