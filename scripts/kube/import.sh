#!/usr/bin/env bash
# Imports images into the node: import.sh TAR… Archives may be docker or OCI.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
for archive in "$@"; do
  # The socket of the node's containerd is in the node's mount namespace.
  nsenter --net --mount --target "$(cat "$STATE/pid")" -- ctr -n k8s.io images import - <"$archive" >/dev/null
done
