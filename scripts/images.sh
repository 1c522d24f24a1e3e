#!/usr/bin/env bash
# Builds the images as archives, without a Docker daemon: images.sh DIR [FLAG…]
#
# The flags are those of deploy/tools/cmd/images.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n 2p "$0" >&2 && exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
root=$PWD
cd deploy/tools
GOWORK=off exec go run ./cmd/images -root "$root" -out "$out" -created "$(git log -1 --format=%ct 2>/dev/null || echo 0)" "$@"
