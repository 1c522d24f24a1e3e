#!/usr/bin/env bash
# Boots a one-node Kubernetes in namespaces of its own (network, mount, pid): up.sh. It needs root, a kernel with cgroup v1 or v2 hierarchies that
# it may write to, and Debian's containerd; nothing is pulled from an image registry. 15 s where the programs are built (build.sh).
#
#   in.sh CMD…      runs CMD where the cluster's addresses are reachable, with its kubeconfig
#   import.sh TAR…  gives the node images
#   down.sh         ends it, with everything that runs in it
#
# The node is offline. It is 10.99.0.1 to pods, which are in 10.244.0.0/24; services are in 10.96.0.0/16.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
began=$SECONDS
say() { echo "kube/up: $* after $((SECONDS - began)) s"; }
[ "$(id -u)" = 0 ] || { echo "kube/up: not root" >&2 && exit 1; }
built || { echo "kube/up: the programs are not built: run scripts/kube/build.sh" >&2 && exit 1; }
[ ! -e "$STATE/pid" ] || { echo "kube/up: it is up already, or was not ended well: run scripts/kube/down.sh" >&2 && exit 1; }

# The packages; installing them must start no services.
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
image carillon.local/pause:1 "$BIN/pause" "$STATE/images/pause.tar" # of every pod's first process
keys
configuration
cgroups
say "configured"

# The node's first process is pid 1 of its own pid namespace: when it ends, everything ends.
mkdir -p /run/containerd /var/lib/containerd /var/lib/kubelet /var/log/pods /var/log/containers
STATE=$STATE BIN=$BIN setsid unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc \
  bash "$HERE/node.sh" >"$STATE/log/node.log" 2>&1 </dev/null 9>&- &
parent=$!
for _ in $(seq 50); do
  pgrep -P "$parent" >"$STATE/pid" && break
  sleep 0.1
done

# wait_for WHAT COMMAND…: two minutes at most.
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
