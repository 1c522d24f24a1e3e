#!/usr/bin/env bash
# Runs a command in the cluster's network, with its kubeconfig: in.sh COMMAND… It sees this host's files and processes.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ -s "$STATE/pid" ] || { echo "kube/in: no cluster is up: run scripts/kube/up.sh" >&2 && exit 1; }
export KUBECONFIG=$STATE/kubeconfig PATH
exec nsenter --net --target "$(cat "$STATE/pid")" -- "$@"
