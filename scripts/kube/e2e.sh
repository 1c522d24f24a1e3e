#!/usr/bin/env bash
# Proves the chart on a real Kubernetes: e2e.sh. It boots a one-node cluster with MariaDB, Redis and Pulsar beside it, builds and imports the
# images, runs e2e/kube and the stories of e2e/scenario on it, and ends it all. Root, and 15 minutes; 30 more where its programs are not built.
#
# With KUBECONFIG it uses that cluster instead and starts nothing: then CARILLON_E2E_REGISTRY, CARILLON_E2E_TAG and CARILLON_E2E_NEXT_TAG name images
# that its nodes can pull, CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS, CARILLON_TEST_PULSAR_URL and CARILLON_TEST_PULSAR_ADMIN_URL servers that
# both its pods and this machine reach, and CARILLON_E2E_HOST this machine's address as pods reach it. Where pods and Services cannot be reached from here,
# run it in a pod, or set CARILLON_E2E_API (then the stories that read pods' metrics fail). Kinds of others' that it does not have (crds.sh) are given to it, and taken
# away at the end; those that it has are used.
#
# CARILLON_E2E_RUN limits the tests by a pattern; CARILLON_E2E_KEEP=1 leaves everything running.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
root=$(cd "$HERE/../.." && pwd)
export CARILLON_E2E_KUBE=1 CARILLON_BIN=/nowhere CARILLON_TEST_REQUIRE=mysql,redis,pulsar
began=$SECONDS
say() { echo "kube/e2e: $* after $((SECONDS - began)) s"; }

# tests COMMAND…: runs the test programs by COMMAND; both, whatever the first found.
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
