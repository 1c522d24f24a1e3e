#!/usr/bin/env bash
# Tests the chart on a real Kubernetes: e2e.sh. It needs root and 15 minutes, and 30 more if the
# cluster's programs are not built.
#
# It boots a one-node cluster with MariaDB, Redis and Pulsar beside it, and builds and imports the
# images. It runs e2e/kube and the scenarios of e2e/scenario there, and stops everything.
#
# With KUBECONFIG it uses that cluster and starts nothing. Then these variables are needed:
#
#   CARILLON_E2E_REGISTRY, CARILLON_E2E_TAG, CARILLON_E2E_NEXT_TAG  images that its nodes can pull
#   CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS,
#   CARILLON_TEST_PULSAR_URL, CARILLON_TEST_PULSAR_ADMIN_URL        servers that pods and this machine reach
#   CARILLON_E2E_HOST                                               this machine's address as pods reach it
#
# If this machine cannot reach pods and Services, run the script in a pod. Or set CARILLON_E2E_API;
# then the scenarios that read pods' metrics fail. The script installs missing custom resource
# definitions (crds.sh) and deletes them at the end. It uses existing ones.
#
# CARILLON_E2E_RUN limits the tests by a pattern. CARILLON_E2E_KEEP=1 leaves everything running.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
root=$(cd "$HERE/../.." && pwd)
export CARILLON_E2E_KUBE=1 CARILLON_BIN=/nowhere CARILLON_TEST_REQUIRE=mysql,redis,pulsar
began=$SECONDS
say() { echo "kube/e2e: $* after $((SECONDS - began)) s"; }

# tests COMMAND…: runs both test programs by COMMAND, the second also if the first failed.
tests() {
  local failed=0 timeout=30m
  (cd "$root/e2e/kube" && "$@" "$work/kube.test" -test.v -test.timeout $timeout -test.run "${CARILLON_E2E_RUN:-.}") || failed=1
  (cd "$root/e2e/scenario" && "$@" "$work/scenario.test" -test.v -test.timeout $timeout -test.run "(${CARILLON_E2E_RUN:-.})/^kube\$") || failed=1
  return $failed
}

work=$(mktemp -d "${TMPDIR:-/tmp}/carillon-kube.XXXXXX")
ours=
finish() {
  local code=$?
  trap '' INT TERM EXIT
  if [ -n "$ours" ] && [ $code -ne 0 ] && [ -d "$STATE/log" ]; then
    mkdir -p "$root/e2e/kube/failures"
    cp -r "$STATE/log" "$root/e2e/kube/failures/$(date -u +%H%M%S)"
    echo "kube/e2e: the node's logs are in e2e/kube/failures" >&2
  fi
  if [ -z "$ours" ] && [ -z "${CARILLON_E2E_KEEP:-}" ] && [ -s "$work/crds" ]; then
    "$HERE/crds.sh" delete "$work/crds" || { echo "kube/e2e: still in the cluster: $(tr '\n' ' ' <"$work/crds")" >&2 && code=1; }
  fi
  if [ -n "$ours" ] && [ -z "${CARILLON_E2E_KEEP:-}" ]; then
    "$HERE/in.sh" "$root/scripts/servers.sh" wipe "$STATE/servers" >/dev/null 2>&1 || true
    "$HERE/down.sh"
  fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

cd "$root"
go test -c -o "$work/kube.test" ./e2e/kube
go test -c -o "$work/scenario.test" ./e2e/scenario
if [ -n "${KUBECONFIG:-}" ]; then
  kubectl version >/dev/null
  "$HERE/crds.sh" get
  "$HERE/crds.sh" apply "$work/crds"
  tests env
  exit
fi

"$HERE/build.sh"
"$HERE/crds.sh" get
export CARILLON_E2E_REGISTRY=carillon.local CARILLON_E2E_TAG=e2e-1 CARILLON_E2E_NEXT_TAG=e2e-2 CARILLON_E2E_HOST=10.99.0.1
for tag in $CARILLON_E2E_TAG $CARILLON_E2E_NEXT_TAG; do
  scripts/images.sh "$work/$tag" -arch "$(go env GOARCH)" -registry $CARILLON_E2E_REGISTRY -version "$tag" -oci=false >/dev/null
done
say "images built"
scripts/install-servers.sh mysql redis pulsar >/dev/null
ours=1
"$HERE/up.sh"
"$HERE/import.sh" "$work"/e2e-*/*.tar
rm -rf "$work"/e2e-*
say "images imported"
if "$HERE/keda.sh" built; then
  "$HERE/keda.sh" install
  say "KEDA ready"
fi
"$HERE/in.sh" "$HERE/crds.sh" apply "$work/crds"
CARILLON_SERVERS_ADDR=10.99.0.1 "$HERE/in.sh" scripts/servers.sh up "$STATE/servers" mysql redis pulsar
set -a
. "$STATE/servers/env"
set +a
say "servers up"
tests "$HERE/in.sh"
say "passed"
