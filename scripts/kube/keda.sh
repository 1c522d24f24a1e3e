#!/usr/bin/env bash
# Builds and installs KEDA on the cluster of up.sh: keda.sh build|built|install
#
#   build    builds its programs from their module, as images, once per host
#   built    succeeds if build has finished; then e2e.sh installs KEDA
#   install  imports the images, applies KEDA's own manifests, and waits until its metrics are served
#
# The cluster has no registry to pull KEDA from. build includes only the Pulsar scaler of 80: the
# others need the libraries of all clouds and treble the time. A cold build takes 20 minutes on two
# busy cores, and 3 GB of Go's caches.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
. "$HERE/modules.sh"
. "$HERE/image.sh"
out=$KEDA-$KEDA_VERSION

build() {
  local program
  mkdir -p "$out"
  exec 9>"$out/lock"
  flock 9
  work=$(mktemp -d) # not local: the trap uses it
  trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
  cp -r "$(module "${KEDA_MODULE[@]}")/." "$work/"
  chmod -R u+w "$work"
  cd "$work"
  find pkg/scalers -maxdepth 1 -name '*.go' ! -name scaler.go ! -name pulsar_scaler.go -delete
  awk '/^\tcase "/ { other = !/"pulsar"/ } /^\tdefault:/ { other = 0 } !other' pkg/scaling/scalers_builder.go >builder
  mv builder pkg/scaling/scalers_builder.go
  # Image names as in KEDA's own Dockerfiles.
  for program in operator:keda adapter:keda-adapter webhooks:keda-admission-webhooks; do
    echo "kube/keda: ${program#*:}"
    GOTOOLCHAIN=local CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false nice -n 15 go build -trimpath -ldflags '-s -w' -o "built/${program#*:}" "./cmd/${program%:*}"
  done
  image "carillon.local/keda:$KEDA_VERSION" built/keda "$out/keda.tar"
  image "carillon.local/keda-metrics-apiserver:$KEDA_VERSION" built/keda-adapter "$out/keda-metrics-apiserver.tar"
  image "carillon.local/keda-admission-webhooks:$KEDA_VERSION" built/keda-admission-webhooks "$out/keda-admission-webhooks.tar"
  kubectl kustomize config/default |
    sed -E "s|image: ghcr.io/kedacore/([a-z-]+):.*|image: carillon.local/\1:$KEDA_VERSION|; s|imagePullPolicy: Always|imagePullPolicy: Never|" >"$out/new"
  mv "$out/new" "$out/keda.yaml" # last, so that an existing file is complete
}

install_it() {
  "$HERE/import.sh" "$out"/*.tar
  "$HERE/in.sh" kubectl apply --server-side -f "$out/keda.yaml" >/dev/null
  "$HERE/in.sh" kubectl -n keda rollout status deployment --timeout=3m >/dev/null
  "$HERE/in.sh" kubectl wait --for=condition=Available apiservice/v1beta1.external.metrics.k8s.io --timeout=2m >/dev/null
}

case ${1:-} in
  build) build ;;
  built) [ -e "$out/keda.yaml" ] ;;
  install) install_it ;;
  *) sed -n 2,6p "$0" >&2 && exit 2 ;;
esac
