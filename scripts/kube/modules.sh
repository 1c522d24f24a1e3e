# Sourced by the cluster's scripts: downloads third-party Go modules at pinned versions and
# checksums.

# module MODULE VERSION SUM: downloads the module unless it is in Go's cache, and prints its
# directory there.
module() {
  local got
  got=$(cd / && GOWORK=off GOFLAGS=-mod=mod GOTOOLCHAIN=local go mod download -json "$1@$2") || { echo "$got" >&2 && return 1; }
  grep -qF "\"Sum\": \"$3\"" <<<"$got" || { echo "kube/modules: $1@$2 has another checksum: $got" >&2 && return 1; }
  sed -nE 's/^\t"Dir": "(.*)",?$/\1/p' <<<"$got"
}

# crds.sh needs KEDA's definitions, and keda.sh builds KEDA itself.
KEDA_VERSION=2.21.0
KEDA_MODULE=(github.com/kedacore/keda/v2 v$KEDA_VERSION h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=)
