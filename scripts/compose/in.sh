#!/usr/bin/env bash
# Runs a command in the engine's network, with docker connected to the engine: in.sh COMMAND… The
# command sees this host's files and processes.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ -s "$STATE/pid" ] || { echo "compose/in: no engine is up: run scripts/compose/up.sh" >&2 && exit 1; }
export PATH
exec nsenter --net --target "$(cat "$STATE/pid")" -- "$@"
