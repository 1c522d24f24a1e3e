#!/usr/bin/env bash
# Boots a one-node Kubernetes in its own network, mount and pid namespaces: up.sh.
#
# It needs root, a kernel with writable cgroup v1 or v2 hierarchies, and Debian's containerd. It
# pulls nothing from an image registry. It takes 15 s if the programs are built (build.sh).
#
#   in.sh CMD…      runs CMD where the cluster's addresses are reachable, with its kubeconfig
#   import.sh TAR…  imports images into the node
#   down.sh         stops the cluster and everything in it
#
# The node is offline. Pods see it as 10.99.0.1. Pods are in 10.244.0.0/24, services in
# 10.96.0.0/16.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
began=$SECONDS
say() { echo "kube/up: $* after $((SECONDS - began)) s"; }
[ "$(id -u)" = 0 ] || { echo "kube/up: not root" >&2 && exit 1; }
built || { echo "kube/up: the programs are not built: run scripts/kube/build.sh" >&2 && exit 1; }
[ ! -e "$STATE/pid" ] || { echo "kube/up: a cluster is up, or was killed: run scripts/kube/down.sh" >&2 && exit 1; }

# Install the packages without starting their services.
missing=()
for package in containerd runc containernetworking-plugins nftables iptables conntrack iproute2 openssl curl ca-certificates; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then policy=; else printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; fi
  trap '[ -z "$policy" ] || rm -f "$policy"' EXIT
  install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
  "${install[@]}" >/dev/null || { apt-get update -q && "${install[@]}" >/dev/null; }
fi

mkdir -p "$STATE"/{pki,log,etcd,containerd,kubelet,pods,cni,images}
. "$HERE/configure.sh"
. "$HERE/image.sh"
image carillon.local/pause:1 "$BIN/pause" "$STATE/images/pause.tar" # first process of every pod
keys
configuration
cgroups
say "configured"

# The node's first process is pid 1 of its own pid namespace. When it ends, every process there
# ends.
mkdir -p /run/containerd /var/lib/containerd /var/lib/kubelet /var/log/pods /var/log/containers
STATE=$STATE BIN=$BIN setsid unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc \
  bash "$HERE/node.sh" >"$STATE/log/node.log" 2>&1 </dev/null 9>&- &
parent=$!
for _ in $(seq 50); do
  pgrep -P "$parent" >"$STATE/pid" && break
  sleep 0.1
done

# wait_for WHAT COMMAND…: repeats the command until it succeeds, at most for two minutes.
wait_for() {
  local what=$1 _
  shift
  for _ in $(seq 240); do
    if "$HERE/in.sh" "$@" >/dev/null 2>&1; then say "$what" && return; fi
    sleep 0.5
  done
  echo "kube/up: no $what; see $STATE/log" >&2
  exit 1
}
wait_for "API server ready" kubectl get --raw /readyz
wait_for "node known" kubectl get node carillon
wait_for "node ready" kubectl wait --for=condition=Ready node/carillon --timeout=1s
wait_for "accounts made" kubectl -n default get serviceaccount default
"$HERE/in.sh" kubectl apply -f "$STATE/dns.yaml" >/dev/null
wait_for "names resolved" curl -sf -o /dev/null http://10.99.0.1:8181/ready
