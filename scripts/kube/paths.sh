# Sourced by the cluster's scripts: where what they share is.
#
#   BIN    the programs, built once per host (build.sh), outside the tree: a new checkout need not build them again
#   CRDS   definitions of others' kinds (crds.sh)
#   KEDA   where it was built (keda.sh)
#   STATE  the running cluster; one at a time per host, as its networks have fixed addresses
export CARILLON_CACHE=${CARILLON_CACHE:-$HOME/.cache/carillon}
KUBE_VERSION=1.34.4
HELM_VERSION=3.19.5
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=$CARILLON_CACHE/kube/$KUBE_VERSION-$(cat "$HERE"/src/go.sum "$HERE"/src/cmd/*/*.go | sha256sum | cut -c1-8)/bin
CRDS=$CARILLON_CACHE/kube/crds-$(cat "$HERE/crds.sh" "$HERE/modules.sh" | sha256sum | cut -c1-8)
KEDA=$CARILLON_CACHE/kube/keda
STATE=${CARILLON_KUBE_STATE:-$CARILLON_CACHE/kube/state}
PATH=$BIN:$PATH:/usr/sbin:/sbin

# built: succeeds when the programs are there.
built() { [ -x "$BIN/kube" ] && [ -x "$BIN/helm" ] && [ -x "$BIN/pause" ]; }
