#!/usr/bin/env bash
# Tests deploy/Dockerfile and deploy/compose.yaml on a Docker engine: e2e.sh.
#
# It uses the engine that docker finds. If none answers, it boots one in its own namespaces (up.sh;
# root, once 10 minutes), with STAND-INS for the images to pull, and stops it at the end. It builds
# and compares the images. Then it exercises a project: up, timers that are called, Prometheus,
# scale, restart, killed processes, down. Everything that it starts has its own names and ports.
#
# CARILLON_E2E_RUN limits the tests by a pattern. CARILLON_COMPOSE_ENGINE=own boots an engine even
# if another answers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export CARILLON_E2E_COMPOSE=1
began=$SECONDS
say() { echo "compose/e2e: $* after $((SECONDS - began)) s"; }

work=$(mktemp -d "${TMPDIR:-/tmp}/carillon-compose.XXXXXX")
ours=
finish() {
  local code=$?
  trap '' INT TERM EXIT
  if [ -n "$ours" ]; then
    if [ $code -ne 0 ]; then
      mkdir -p "$root/e2e/compose/failures"
      cp "$STATE/dockerd.log" "$root/e2e/compose/failures/$(date -u +%H%M%S).log" 2>/dev/null &&
        echo "compose/e2e: the engine's log is in e2e/compose/failures" >&2
    fi
    "$here/down.sh"
  fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

cd "$root"
go test -c -o "$work/compose.test" ./e2e/compose
run=(env)
if [ "${CARILLON_COMPOSE_ENGINE:-}" = own ] || ! docker version >/dev/null 2>&1; then
  echo "compose/e2e: no Docker engine answers: booting one"
  . "$here/paths.sh"
  "$here/build.sh"
  ours=1
  "$here/up.sh"
  run=("$here/in.sh")
  printf '\n!!! STAND-INS, not the images that compose.yaml and the Dockerfile name:\n%s\n\n' "$("$here/in.sh" "$here/standins.sh")"
fi
docker compose version >/dev/null 2>&1 || { echo "compose/e2e: docker has no compose: install Docker's compose plugin" >&2 && exit 1; }
say "engine $(docker version --format '{{.Server.Version}}') and compose $(docker compose version --short)"
(cd e2e/compose && "${run[@]}" "$work/compose.test" -test.v -test.timeout 60m -test.run "${CARILLON_E2E_RUN:-.}")
say "passed"
