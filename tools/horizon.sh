#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Test Horizon's compute panels with a browser against a complete cloud. Arguments: those of pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/browser.sh
tools/peer.sh horizon
tools/networks.sh
export PYTHONPATH=src:tests
exec .venv-horizon/bin/python -m pytest -c tests/horizon/pytest.ini --confcutdir=tests/horizon tests/horizon "$@"
