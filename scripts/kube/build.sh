#!/usr/bin/env bash
# Builds Kubernetes, etcd, CoreDNS and helm from their Go modules, where they are not built yet: build.sh. 10 minutes on two idle cores
# from cold, 30 on busy ones; 6 GB of Go's caches.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
mkdir -p "$BIN"
exec 9>"$BIN/lock" # only one builds; who waited finds it built
flock 9
cd "$HERE/src"
export GOTOOLCHAIN=local CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false

# build NAME LDFLAGS PACKAGE: whole or not at all.
build() {
  [ -x "$BIN/$1" ] && return
  echo "kube/build: $1"
  nice go build -trimpath -ldflags "-s -w $2" -o "$BIN/$1.new" "$3"
  mv "$BIN/$1.new" "$BIN/$1"
}

build pause '' ./cmd/pause
version=k8s.io/component-base/version
build kube "-X $version.gitVersion=v$KUBE_VERSION -X $version.gitMajor=1 -X $version.gitMinor=34" ./cmd/kube
helm=helm.sh/helm/v3
# The version of Kubernetes that it takes for granted where it asks no cluster; a build by itself thinks of a very old one.
assumed=
for package in lint/rules.k8s chartutil.k8s; do
  assumed+=" -X $helm/pkg/${package}VersionMajor=1 -X $helm/pkg/${package}VersionMinor=34"
done
build helm "-X $helm/internal/version.version=v$HELM_VERSION$assumed" $helm/cmd/helm
for name in etcd coredns kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
  ln -sfn kube "$BIN/$name"
done
echo "kube/build: ready in $BIN"
