#!/usr/bin/env bash
# Boots a Docker engine in its own network, mount and pid namespaces: up.sh. It needs root and the
# result of build.sh.
#
#   in.sh CMD…  runs CMD where published container ports are reachable, with docker connected to this engine
#   down.sh     stops the engine and everything in it; images stay
#
# The engine is offline. Images come from build.sh, Go modules from this host's cache. Networks are
# in 10.98.0.0/16.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ "$(id -u)" = 0 ] || { echo "compose/up: not root" >&2 && exit 1; }
[ -x "$ENGINE/bin/docker" ] || { echo "compose/up: no engine is built: run scripts/compose/build.sh" >&2 && exit 1; }
[ ! -e "$STATE/pid" ] || { echo "compose/up: an engine is up, or was killed: run scripts/compose/down.sh" >&2 && exit 1; }
mkdir -p "$STATE" "$CACHE/data"

# Every module that the images need, with the files that only clients of a module proxy request.
for module in proto libs services; do
  (cd "$ROOT/$module" && GOWORK=off go mod download)
done
MODULES=$(go env GOMODCACHE)/cache/download
export STATE MODULES

# The first process is pid 1 of its own pid namespace. When it ends, every process there ends.
setsid unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc bash "$HERE/node.sh" >"$STATE/node.log" 2>&1 </dev/null 9>&- &
parent=$!
for _ in $(seq 50); do
  pgrep -P "$parent" >"$STATE/pid" && break
  sleep 0.1
done
for _ in $(seq 240); do
  docker version >/dev/null 2>&1 && break
  [ -d "/proc/$parent" ] || break
  sleep 0.5
done
docker version >/dev/null || { echo "compose/up: the engine does not answer; see $STATE" >&2 && exit 1; }

# Remains of a run that was killed.
left=$(docker ps -aq)
# shellcheck disable=SC2086
[ -z "$left" ] || docker rm -f $left >/dev/null
docker network prune -f >/dev/null
docker volume prune -af >/dev/null
