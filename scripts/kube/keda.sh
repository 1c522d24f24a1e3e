#!/usr/bin/env bash
# KEDA itself on the cluster of up.sh, which has no registry to pull it from: keda.sh build|built|install.
#
#   build    makes its programs from their module, as images, once per host: of its 80 scalers that of Pulsar alone, as the others bring along all clouds'
#            libraries and treble the time. 20 minutes on two busy cores from cold, and 3 GB of Go's caches
#   built    succeeds when that was done: then e2e.sh installs it
#   install  gives the node the images and the cluster KEDA's own manifests, and waits until the metrics are served
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
  work=$(mktemp -d) # the trap's too, so no local
  trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
  cp -r "$(module "${KEDA_MODULE[@]}")/." "$work/"
  chmod -R u+w "$work"
  cd "$work"
  find pkg/scalers -maxdepth 1 -name '*.go' ! -name scaler.go ! -name pulsar_scaler.go -delete
  awk '/^\tcase "/ { other = !/"pulsar"/ } /^\tdefault:/ { other = 0 } !other' pkg/scaling/scalers_builder.go >builder
  mv builder pkg/scaling/scalers_builder.go
  # The names that its Dockerfiles give them.
  for program in operator:keda adapter:keda-adapter webhooks:keda-admission-webhooks; do
    echo "kube/keda: ${program#*:}"
    GOTOOLCHAIN=local CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false nice -n 15 go build -trimpath -ldflags '-s -w' -o "built/${program#*:}" "./cmd/${program%:*}"
  done
  image "carillon.local/keda:$KEDA_VERSION" built/keda "$out/keda.tar"
  image "carillon.local/keda-metrics-apiserver:$KEDA_VERSION" built/keda-adapter "$out/keda-metrics-apiserver.tar"
  image "carillon.local/keda-admission-webhooks:$KEDA_VERSION" built/keda-admission-webhooks "$out/keda-admission-webhooks.tar"
  kubectl kustomize config/default |
    sed -E "s|image: ghcr.io/kedacore/([a-z-]+):.*|image: carillon.local/\1:$KEDA_VERSION|; s|imagePullPolicy: Always|imagePullPolicy: Never|" >"$out/new"
  mv "$out/new" "$out/keda.yaml" # last: so it is whole
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
  *) sed -n 2,7p "$0" >&2 && exit 2 ;;
esac
