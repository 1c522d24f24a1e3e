#!/usr/bin/env bash
# Runs a command in the cluster's network, with its names and its kubeconfig: in.sh COMMAND… It sees this host's files and processes.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ -s "$STATE/pid" ] || { echo "kube/in: no cluster is up: run scripts/kube/up.sh" >&2 && exit 1; }
export KUBECONFIG=$STATE/kubeconfig PATH
# The host's name server is out of reach from there, and whoever looks up a name, or his own address, would wait for it for seconds.
exec nsenter --net --target "$(cat "$STATE/pid")" -- unshare --mount \
  sh -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' "$STATE/node-resolv.conf" "$@"
