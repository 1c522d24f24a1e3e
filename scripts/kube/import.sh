#!/usr/bin/env bash
# Gives the node images: import.sh TAR… They are docker or OCI archives.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
for archive in "$@"; do
  # The node's containerd has its socket in the node's mounts.
  nsenter --net --mount --target "$(cat "$STATE/pid")" -- ctr -n k8s.io images import - <"$archive" >/dev/null
done
