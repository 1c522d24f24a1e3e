#!/usr/bin/env bash
# Runs a command in the cluster's network, with its DNS and its kubeconfig: in.sh COMMAND… The
# command sees this host's files and processes.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ -s "$STATE/pid" ] || { echo "kube/in: no cluster is up: run scripts/kube/up.sh" >&2 && exit 1; }
export KUBECONFIG=$STATE/kubeconfig PATH
# The host's name server is unreachable from the cluster's network. A lookup there would wait for
# seconds.
exec nsenter --net --target "$(cat "$STATE/pid")" -- unshare --mount \
  sh -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' "$STATE/node-resolv.conf" "$@"
