#!/usr/bin/env bash
# Boots a Docker engine in namespaces of its own (network, mount, pid): up.sh. It needs root, and what build.sh got.
#
#   in.sh CMD…  runs CMD where ports that containers publish are reachable, with docker talking to this engine
#   down.sh     ends it, with everything that runs in it; images stay
#
# It is offline: images are what build.sh made, Go modules what this host has in its cache. Networks are in 10.98.0.0/16.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ "$(id -u)" = 0 ] || { echo "compose/up: not root" >&2 && exit 1; }
[ -x "$ENGINE/bin/docker" ] || { echo "compose/up: there is no engine: run scripts/compose/build.sh" >&2 && exit 1; }
[ ! -e "$STATE/pid" ] || { echo "compose/up: it is up already, or was not ended well: run scripts/compose/down.sh" >&2 && exit 1; }
mkdir -p "$STATE" "$CACHE/data"

# Every module that the images need, with the files that only a proxy's clients ask for.
for module in proto libs services; do
  (cd "$ROOT/$module" && GOWORK=off go mod download)
done
MODULES=$(go env GOMODCACHE)/cache/download
export STATE MODULES

# Its first process is pid 1 of its own pid namespace: when it ends, everything ends.
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
docker version >/dev/null || { echo "compose/up: no engine; see $STATE" >&2 && exit 1; }

# What a run left that was not ended well.
left=$(docker ps -aq)
# shellcheck disable=SC2086
[ -z "$left" ] || docker rm -f $left >/dev/null
docker network prune -f >/dev/null
docker volume prune -af >/dev/null
