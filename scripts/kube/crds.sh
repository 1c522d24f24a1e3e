#!/usr/bin/env bash
# Manages custom resource definitions of other projects: crds.sh get|apply LIST|delete LIST
#
#   get     copies the definitions from the projects' Go modules into $CRDS; this repository has no copy
#   apply   installs the definitions that the cluster lacks, and writes their names to LIST
#   delete  deletes the definitions that LIST names, with all their objects
#
# The chart's optional objects and examples need them. apply leaves existing definitions unchanged:
# others own them. The projects' controllers are not installed. The API server validates and stores
# the objects, and nothing acts on them.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
. "$HERE/modules.sh"

# Module, version, checksum, directory in the module, files.
sources="${KEDA_MODULE[*]} config/crd/bases keda.sh_scaledobjects keda.sh_triggerauthentications
sigs.k8s.io/gateway-api v1.6.3 h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc= config/crd/standard gateway.networking.k8s.io_gateways gateway.networking.k8s.io_httproutes
github.com/envoyproxy/gateway v1.9.1 h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY= charts/gateway-helm/charts/crds/crds/generated gateway.envoyproxy.io_backendtrafficpolicies gateway.envoyproxy.io_clienttrafficpolicies gateway.envoyproxy.io_securitypolicies
github.com/prometheus-operator/prometheus-operator v0.85.0 h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s= example/prometheus-operator-crd monitoring.coreos.com_prometheusrules monitoring.coreos.com_servicemonitors"

get() {
  local module version sum directory files file from
  mkdir -p "$CRDS"
  while read -r module version sum directory files; do
    from=$(module "$module" "$version" "$sum")
    for file in $files; do
      install -m 0644 "$from/$directory/$file.yaml" "$CRDS/"
    done
  done <<<"$sources"
}

# name FILE: prints the name of the definition in FILE.
name() { sed -nE '/^metadata:/,/^spec:/s/^  name: (.*)$/\1/p' "$1"; }

apply() {
  local list=$1 file there
  [ -d "$CRDS" ] || { echo "kube/crds: no definitions in $CRDS: run crds.sh get" >&2 && return 1; }
  : >"$list"
  for file in "$CRDS"/*.yaml; do
    there=$(kubectl get crd "$(name "$file")" --ignore-not-found -o name)
    [ -z "$there" ] || { echo "kube/crds: the cluster has its own $there" && continue; }
    name "$file" >>"$list"
    # A client-side apply stores a copy in an annotation, and some definitions are too large for
    # that.
    kubectl apply --server-side -f "$file" >/dev/null
  done
  [ ! -s "$list" ] || xargs kubectl wait --for=condition=Established --timeout=1m crd <"$list" >/dev/null
}

case ${1:-} in
  get) get ;;
  apply) apply "${2:?LIST}" ;;
  delete) [ ! -s "${2:?LIST}" ] || xargs kubectl delete crd --timeout=2m --ignore-not-found <"$2" >/dev/null ;;
  *) sed -n 2,6p "$0" >&2 && exit 2 ;;
esac
