# Sourced by the cluster's scripts: shared paths.
#
#   BIN    the programs; built once per host (build.sh), outside the tree, so new checkouts share them
#   CRDS   third-party custom resource definitions (crds.sh)
#   KEDA   KEDA's programs (keda.sh)
#   STATE  the running cluster; one per host at a time, because its networks have fixed addresses
export CARILLON_CACHE=${CARILLON_CACHE:-$HOME/.cache/carillon}
KUBE_VERSION=1.34.4
HELM_VERSION=3.19.5
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=$CARILLON_CACHE/kube/$KUBE_VERSION-$(cat "$HERE"/src/go.sum "$HERE"/src/cmd/*/*.go | sha256sum | cut -c1-8)/bin
CRDS=$CARILLON_CACHE/kube/crds-$(cat "$HERE/crds.sh" "$HERE/modules.sh" | sha256sum | cut -c1-8)
KEDA=$CARILLON_CACHE/kube/keda
STATE=${CARILLON_KUBE_STATE:-$CARILLON_CACHE/kube/state}
PATH=$BIN:$PATH:/usr/sbin:/sbin

# built: succeeds if the programs exist.
built() { [ -x "$BIN/kube" ] && [ -x "$BIN/helm" ] && [ -x "$BIN/pause" ]; }
